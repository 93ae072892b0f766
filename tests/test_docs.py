"""A walk through README and documentation: commands are understood, links lead somewhere, everything runs.

`make test` parses every command by the front end and follows every link; `make test-all` also runs what the
pages show, in a folder with the files that they talk about. A run is cut to two updates of a tiny model there
(tests/cut.py). A block that cannot run on any machine says so to its readers, too, by a title: "needs a GPU".
Lines that install or make something (`make`, `pip`, environments) are for continuous integration.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rmt.cli import finetune_language
from rmt.cli.front import Command
from tests.cli.commands import all_commands
from tests.cut import run
from tests.pages import (
    DOCS,
    MADE,
    PAGES,
    ROOT,
    anchors,
    inline_commands,
    invocations,
    links,
    name_of,
    shell_lines,
)

WALKED = [page for page in PAGES if any(shell_lines(page))]
SET_UP = ("make", "python3 -m venv", ". .venv", "python -m pip", "pip ")
SCRIPTS = ("python examples/", "python benchmarks/", "python docs/")  # tests of their own run them
FIRST_RUN = "rmt train copy --segments 3 --length 8 --target 0.99"  # the run that all pages talk about
SHELL = set("|<>;&*$")
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
def test_scripts_that_a_page_starts_exist(page):
    for line in shell_lines(page):
        if line.text.startswith(SCRIPTS):
            assert (ROOT / line.text.split()[1]).exists(), line.text


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A folder with all files and backbones that pages talk about, small."""
    pytest.importorskip("transformers")
    from tests.hf.tokens import tokenizer
    from tests.hf.zoo import plain

    folder = tmp_path_factory.mktemp("library")
    text = "The fox and the grapes. It was the best of times, it was the worst of times.\n" * 50
    for name in ("library.txt", "letters.txt", "letter.txt", "huge.txt"):
        (folder / name).write_text(text)
    for name in ("book.txt", "novel.txt"):
        (folder / name).write_text(text * 20)
    for name in ("huge.txt.gz", "huge.gz"):
        (folder / name).write_bytes(gzip.compress(text.encode()))
    rows = [
        {"text": f"w{index % 5} w3 w4 " * 30, "label": "good" if index % 2 else "bad"} for index in range(24)
    ]
    (folder / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "reviews.csv").write_text(
        "text,label\n" + "\n".join(f"{row['text']},{row['label']}" for row in rows)
    )
    for name in ("bert-base-uncased", "roberta-base", "sentence-transformers/all-MiniLM-L6-v2"):
        plain("bert", max_position_embeddings=512, num_labels=2).float().save_pretrained(folder / name)
        tokenizer(limit=512).save_pretrained(folder / name)
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "bin").mkdir()
    (folder / "bin" / "rmt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rmt "$@"\n')
    (folder / "bin" / "rmt").chmod(0o755)
    return folder


@pytest.mark.slow
@over(WALKED)
def test_the_commands_of_a_page_run_as_they_are_written(page, library, tmp_path, monkeypatch, capfd):
    work = tmp_path / "work"
    shutil.copytree(library, work, symlinks=True)
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a task named `module:Class` adds the current folder
    assert code_of(FIRST_RUN, work) == 0
    for line in shell_lines(page):
        if line.fence.runs_here and not line.text.startswith((*SET_UP, *SCRIPTS)):
            capfd.readouterr()
            code = code_of(line.text, work)
            out, err = capfd.readouterr()
            if line.fails:
                assert (code, err.strip()) == (2, line.output), line.text
            else:
                assert code == 0, f"{line.text}\n{err}"
            if line.output and "data " in line.text and not line.fails:
                assert out.strip() == line.output


def code_of(line: str, work: Path) -> int:
    """The exit code of a command line; what needs a shell gets one, with an `rmt` that is not cut."""
    commands = list(invocations(line))
    if line.startswith("rmt ") and not SHELL & set(line.partition(" #")[0].replace(' |"', "")):
        return run(commands[0])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment["PATH"] = f"{work / 'bin'}{os.pathsep}{environment['PATH']}"
    return subprocess.run(["bash", "-c", line], env=environment, cwd=work).returncode


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
