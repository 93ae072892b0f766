"""README and documentation: commands are understood, links lead somewhere, nothing stays untested.

Here every command is parsed, every link followed, and every line of make, pip and scripts held against what
there is; test_examples.py runs the blocks of Python, test_walk.py everything.
"""

import json
import re
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rmt.cli import finetune_language
from rmt.cli.front import Command
from tests.cli.commands import all_commands
from tests.pages import (
    DOCS,
    MADE,
    PAGES,
    ROOT,
    anchors,
    fences,
    inline_commands,
    invocations,
    links,
    name_of,
    shell_lines,
    words_of,
)

LANGUAGES = ("console", "bash", "python", "json", "text", "")
CODE = re.compile(r"^(\$|import|from \w+ import|make|pip|python3?|rmt|def|class)( |$)", re.MULTILINE)
ENVIRONMENT = ("python3 -m venv .venv", ". .venv/bin/activate")
PROGRAMS = ("rmt ", "python ", "make", "zcat ", "torchrun ", "srun ", *ENVIRONMENT)
OTHERS = ("--version", "--help", "help", "completion")  # no option of theirs is in a dataclass


def over(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=name_of)


@over(PAGES)
def test_every_command_of_a_page_is_understood(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("seed: 1\n")
    lines = [words for line in shell_lines(page) if not line.fails for words in invocations(line.text)]
    for words in lines:
        if words[0] not in OTHERS:
            command, rest = command_of(words)
            command.collect([*rest, "--print_config"])


@over([page for page in PAGES if page.name != "CHANGELOG.md"])  # which tells of options that were
def test_every_option_in_a_sentence_exists(page):
    for words in inline_commands(page):
        if words[0] in OTHERS:
            continue
        command, rest = command_of(words)
        flags = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert flags <= command.grammar().flags.keys(), f"rmt {' '.join(words)}"


def command_of(words: list[str]) -> tuple[Command[Any], list[str]]:
    """The command that a line is for, and the words behind its name."""
    commands = all_commands()
    if words[0] == "finetune" and "--task lm" in " ".join(words):
        return finetune_language.COMMAND, words[1:]
    name = " ".join(words[:2]) if " ".join(words[:2]) in commands else words[0]
    assert name in commands, f"there is no command rmt {name}"
    return commands[name], words[len(name.split()) :]


@over(PAGES)
def test_every_link_of_a_page_leads_somewhere(page):
    for path, anchor in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{path} is outside of the repository"
        made = target.relative_to(ROOT).as_posix() in MADE
        assert made or target.exists(), f"{path} does not exist"
        if anchor and not made and "api" not in target.parts:
            assert anchor in anchors(target), f"{path} has no heading #{anchor}"


def test_the_page_on_installing_names_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(extras)


@over(PAGES)
def test_every_block_of_a_page_is_of_a_kind_that_is_tested(page):
    blocks = list(fences(page))
    assert len(re.findall(r"^ *(?:```(?!`)|~~~)", page.read_text(), re.MULTILINE)) == 2 * len(blocks)
    for block in blocks:
        where = f"{name_of(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: nothing tests {block.language!r}"
        if block.language in ("", "text"):
            assert not CODE.search(block.text), f"{where}: code and commands name their language"
        elif block.language == "json":
            json.loads(block.text)
    for line in shell_lines(page):
        assert line.text.startswith((*PROGRAMS, "#")), f"{line}: nothing tests it"


@over(PAGES)
def test_make_has_the_targets_and_variables_that_a_page_names(page):
    variables = set(re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for words in words_of(page, "make"):
        assert {word.partition("=")[0] for word in words if "=" in word} <= variables, words
        done = subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@over(PAGES)
def test_what_a_page_installs_is_there(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for words in (*words_of(page, "pip install "), *words_of(page, "python -m pip install ")):
        _, _, wanted = " ".join(words).partition("install ")
        pinned, _, package = wanted.rpartition(" ")
        name, extras = re.fullmatch(r"([\w.-]+?)(?:\[([\w,]+)\])?", package).groups()
        pins = (
            "-c constraints.txt",
            "-c constraints.txt -e",
        )  # from the source, as a copy or as it lies there
        assert (name, pinned) in (*((".", pin) for pin in pins), (project["name"], "")), wanted
        assert set(filter(None, (extras or "").split(","))) <= project["optional-dependencies"].keys(), wanted


@over(PAGES)
def test_scripts_that_a_page_starts_have_its_options(page):
    for words in words_of(page, "python "):
        if words[1] == "-m":
            assert words[2] in ("pip", "build") or find_spec(words[2]), words
            continue
        script = (ROOT / words[1]).read_text()
        flags = [word for word in words if word.startswith("--")]
        assert all(f'"{flag}"' in script for flag in flags), words


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
    namespace: dict[str, object] = {"__name__": "tour"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            exec(compile(source.replace("STEPS = 2000", "STEPS = 2"), cell["id"], "exec"), namespace)
    out = capsys.readouterr().out
    assert "own memory" in out
    assert "10,000 tokens read" in out
    assert "gradient of the initial memory:" in out


def test_the_notebook_is_committed_without_outputs():
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert (notebook["nbformat"], len({cell["id"] for cell in notebook["cells"]})) == (
        4,
        len(notebook["cells"]),
    )
    assert any("STEPS = 2000" in "".join(cell["source"]) for cell in code)
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)


def test_the_drawings_are_what_the_script_draws(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    from drawings import drawings

    assert {path.stem: path.read_text() for path in (DOCS / "drawn").glob("*.svg")} == drawings()
