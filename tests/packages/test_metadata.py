"""What the package says of itself is the same everywhere: version, changelog, citation, classifiers."""

import re
import tomllib
from pathlib import Path

import yaml

import rmt

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_newest_entry_of_the_changelog_is_this_version():
    newest = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)[0]
    assert rmt.__version__ in newest


def test_no_version_stands_twice_in_the_changelog():
    versions = re.findall(r"^## .*?(\d+\.\d+\.\d+)", CHANGELOG, re.MULTILINE)
    assert versions
    assert len(versions) == len(set(versions))


def test_a_citation_that_names_a_version_names_this_one():
    assert CITATION.get("version", rmt.__version__) == rmt.__version__
    assert CITATION["license"] == PROJECT["license"]


def test_the_lowest_python_that_is_asked_for_is_said_to_work():
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {lowest}" in PROJECT["classifiers"]


def test_the_package_says_that_it_is_typed():
    assert (Path(rmt.__file__).parent / "py.typed").exists()
    assert "Typing :: Typed" in PROJECT["classifiers"]
