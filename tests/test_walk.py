"""A walk through README and documentation, from the first block of a page to its last, as a reader goes.

Commands and Python run as they are written, in a folder with the files that the pages talk about, and print
what the page shows, up to numbers. A training is cut to two updates of a tiny model (tests/cut.py). A block
that cannot run on any machine says so to its readers, too, by a title: "needs a GPU". Lines that make an
environment are held against Makefile and pyproject.toml by test_docs.py.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.cut import run
from tests.pages import PAGES, ROOT, Fence, ShellLine, fence_lines, fences, invocations, name_of, shell_lines

SET_UP = ("make", "python3 -m venv", ". .venv", "python -m pip", "#")
FIRST_RUN = "rmt train copy --segments 3 --length 8 --target 0.99"  # the runs that all pages talk about
TEXT_RUN = "rmt train text --data book.txt"
SHELL = set("|<>;&*$")
WORD = re.compile(r"\w")
NUMBER = re.compile(r"\d[\d,.]*")
EXACT = ("rmt data list", "rmt data show")  # what they print is the same everywhere


def runnable(page: Path) -> list[Fence]:
    """The blocks of a page that the walk runs."""
    blocks = [fence for fence in fences(page) if fence.runs_here]
    return [fence for fence in blocks if fence.language == "python" or commands_of(fence)]


def commands_of(fence: Fence) -> list[ShellLine]:
    return [line for line in fence_lines(fence) if not line.text.startswith(SET_UP)]


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A folder with all files and backbones that pages talk about, small."""
    pytest.importorskip("transformers")
    from rmt.hf import add_memory
    from tests.hf.tokens import tokenizer
    from tests.hf.zoo import plain

    folder = tmp_path_factory.mktemp("library")
    write_texts(folder)
    for name in ("bert-base-uncased", "roberta-base", "sentence-transformers/all-MiniLM-L6-v2"):
        plain("bert", max_position_embeddings=512, num_labels=2).float().save_pretrained(folder / name)
        tokenizer(limit=512).save_pretrained(folder / name)
    plain("gpt2", "ForCausalLM").float().save_pretrained(folder / "gpt2")
    tokenizer().save_pretrained(folder / "gpt2")
    with_memory = add_memory(plain("bert").float(), memory=2, segment_length=16)
    with_memory.save_pretrained(folder / "with-memory", tokenizer=tokenizer())
    for path in (*ROOT.glob("examples/*.py"), *ROOT.glob("benchmarks/*.py")):
        (folder / path.parent.name).mkdir(exist_ok=True)
        shutil.copy(path, folder / path.parent.name)
    (folder / "bin").mkdir()
    for name, words in {"python": "", "rmt": " -m rmt"}.items():
        (folder / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (folder / "bin" / name).chmod(0o755)
    return folder


def write_texts(folder: Path) -> None:
    """Books, letters and labelled documents."""
    text = "The fox and the grapes. It was the best of times, it was the worst of times.\n" * 50
    for name in ("library.txt", "letters.txt", "letter.txt", "huge.txt"):
        (folder / name).write_text(text)
    for name in ("book.txt", "novel.txt"):
        (folder / name).write_text(text * 20)
    for name in ("huge.txt.gz", "huge.gz"):
        (folder / name).write_bytes(gzip.compress(text.encode()))
    rows = [
        {"text": f"w{index % 5} w3 w4 " * 30, "label": "good" if index % 4 else "bad"} for index in range(24)
    ]
    (folder / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
    (folder / "reviews.csv").write_text("\n".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_everything_on_a_page_runs_as_it_is_written(page, library, tmp_path, monkeypatch, capfd):
    work = tmp_path / "work"
    shutil.copytree(library, work, symlinks=True)
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a task named `module:Class` adds the current folder
    own = {line.text for line in shell_lines(page)}
    assert not any(code_of(line, work) for line in (FIRST_RUN, TEXT_RUN) if line not in own)
    module = types.ModuleType(page.stem)  # as the blocks would be in a file of their own
    monkeypatch.setitem(sys.modules, page.stem, module)
    for fence in runnable(page):
        if fence.language == "python":
            assert shapes(fence.printed or "") <= shapes(fence.run(module))
        for line in commands_of(fence):
            capfd.readouterr()
            code = code_of(line.text, work)
            check_printed(line, code, *capfd.readouterr())


@pytest.mark.slow
def test_make_demo_prints_the_table_of_the_readme(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # its models train in processes of their own
    table = next(fence.text for fence in fences(ROOT / "README.md") if not fence.language)
    assert run(["demo"]) == 0
    assert shapes(table) <= shapes(capfd.readouterr().out)


def check_printed(line: ShellLine, code: int, out: str, err: str) -> None:
    """A command ended as its page says, and printed what stands there."""
    if line.fails:
        assert (code, err.strip()) == (2, line.output), line
        return
    assert code == 0, f"{line}\n{err}"
    if line.text.startswith(EXACT) and line.output:
        assert out.strip() == line.output
    assert shapes(line.output) <= shapes(out + err), line


def shapes(text: str) -> set[str]:
    """The lines of a text that have words, without their numbers and with single blanks."""
    return {" ".join(NUMBER.sub("#", line).split()) for line in text.splitlines() if WORD.search(line)}


def code_of(line: str, work: Path) -> int:
    """The exit code of a command line; what needs a shell gets one, with an `rmt` that is not cut."""
    commands = list(invocations(line))
    if line.startswith("rmt ") and not SHELL & set(line.partition(" #")[0].replace(' |"', "")):
        return run(commands[0])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    environment["PATH"] = f"{work / 'bin'}{os.pathsep}{environment['PATH']}"
    return subprocess.run(["bash", "-c", line], env=environment, cwd=work).returncode
