"""What the documentation shows is true: examples run, Python blocks run, commands are understood."""

import contextlib
import io
import re
import runpy
import shlex
import sys
import types
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

from rmt.cli.main import main
from rmt.config import to_dict
from rmt.experiments.recipe import resolve
from rmt.tasks.copy import Copy

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.glob("*.md")) if page.name != "huggingface.md"]  # tests/hf runs that
RUN = "runs/copy-8-3-rmt-modern-0"  # the run the pages talk about
TINY = shlex.split(
    "--model.layers 1 --model.width 8 --model.head_width 4 --steps 2 --batch 4 --device cpu --quiet"
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECKED = ("data", "--help")  # commands whose output, where a page shows it, must be right


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    printed: str | None  # the block of language `text` right behind it


class Command(NamedTuple):
    """A line `$ rmt …` of a page and what the page says it prints."""

    page: str
    arguments: list[str]
    output: str

    def __str__(self) -> str:
        return f"{self.page}: rmt {shlex.join(self.arguments)}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for block, after in zip_longest(found, found[1:]):
        touches = after is not None and not text[block.end() : after.start()].strip()
        printed = after[2] if touches and after[1] == "text" else None
        yield Block(block[1], block[2], text.count("\n", 0, block.start()) + 1, printed)


def commands() -> Iterator[Command]:
    for page in sorted(DOCS.glob("*.md")):
        for block in blocks(page):
            if block.language == "console":
                for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                    line, _, output = part.partition("\n")
                    if line.startswith("rmt "):
                        yield Command(page.name, shlex.split(line, comments=True)[1:], output)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run that the pages talk about, but tiny and untrained."""
    folder = tmp_path_factory.mktemp("workplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Copy, "sizes", {"train": 1000, "valid": 20, "test": 20})
        assert main(["train", "copy", "--out", str(folder / RUN), *TINY]) == 0
    return folder


@pytest.fixture
def at_work(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(sys, "path", [*sys.path])  # a task named `module:Class` adds the current folder


def test_a_task_of_ones_own_trains(tmp_path, capsys):
    task = ["examples.own_task:Sorting", "--segments", "2", "--length", "4"]
    assert main(["train", *task, "--out", str(tmp_path / "run"), *TINY]) == 0
    assert "on 1000 test sequences" in capsys.readouterr().out


def test_segments_by_hand_equal_stepping(capsys):
    runpy.run_path(str(ROOT / "examples" / "segments.py"))
    difference = re.fullmatch(r"largest difference: (\S+)\n", capsys.readouterr().out)
    assert difference
    assert float(difference[1]) < 1e-12


def test_the_page_on_tasks_shows_the_example_as_it_is():
    example, _, how_to_train = (ROOT / "examples" / "own_task.py").read_text().partition("\n\n\n# ")
    page = (DOCS / "tasks.md").read_text()
    assert f"```python\n{example}\n```" in page
    assert "$ " + how_to_train.partition(": ")[2] in page


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_and_print_what_it_says(page, monkeypatch):
    module = types.ModuleType(page.stem)  # as the blocks would be in a file of their own
    monkeypatch.setitem(sys.modules, page.stem, module)
    for block in blocks(page):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * block.line + block.text, str(page), "exec"), vars(module))
            assert block.printed is None or printed.getvalue() == block.printed


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("command", list(commands()), ids=str)
def test_a_command_of_a_page_does_what_it_says(command, capsys):
    arguments, output = command.arguments, command.output.strip()
    if arguments[0] in ("train", "finetune"):
        arguments = [*arguments, "--print_config"]
    elif arguments[0] == "evaluate":
        arguments = [*arguments, "--samples", "5"]
    elif arguments[0] in ("demo", "predict", "info"):
        arguments = [arguments[0], "--help"]
    if output.startswith("rmt: ") and "\n" not in output:
        assert main(arguments) == 2
        assert capsys.readouterr().err.strip() == output
        return
    assert exit_code(arguments) == 0
    if arguments[0] in CHECKED and output:
        assert capsys.readouterr().out.strip() == output


def exit_code(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as leaving:  # argparse leaves after --help
        return int(leaving.code or 0)


def test_the_table_of_recipes_says_what_they_set():
    rows = re.findall(r"^\| `(\S+)` \| (\S+) \| (\S+) \|$", (DOCS / "training.md").read_text(), re.MULTILINE)
    modern, paper = (dotted(to_dict(resolve({"recipe": recipe}))) for recipe in ("modern", "paper"))
    differing = {name for name in modern if modern[name] != paper[name]} - {"recipe"}
    assert {name: (one, other) for name, one, other in rows} == {
        name: (str(modern[name]), str(paper[name])) for name in differing
    }


def dotted(settings: dict, prefix: str = "") -> dict[str, object]:
    """Nested settings by their dotted names."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= dotted(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
