"""What the documentation shows is true: examples run, Python blocks run, commands are understood."""

import re
import runpy
import shlex
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmt.cli.main import main
from rmt.config import to_dict
from rmt.experiments.recipe import resolve
from rmt.tasks.copy import Copy
from tests.pages import DOCS, ROOT, ShellLine, fences, name_of, shell_lines

PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "huggingface.md"]  # tests/hf runs that
RUN = "runs/copy-8-3-rmt-modern-0"  # the run the pages talk about
TEXT_RUN = "runs/text-book.txt-rmt-modern-0"  # and the other one
TINY = shlex.split("--model.layers 1 --model.head_width 4 --steps 2 --batch 4 --device cpu --quiet")
TRIED = ("train", "finetune", "data", "evaluate", "attention", "generate", "runs", "report")
CHECKED = ("data",)  # commands whose output, where a page shows it, must be right


def commands() -> Iterator[ShellLine]:
    """Commands that can be tried at once: tasks, settings, the run above; test_docs.py runs all of them."""
    for page in sorted(DOCS.glob("*.md")):
        for line in shell_lines(page):
            words = line.text.split()
            elsewhere = any(word.startswith(("runs/", "with-memory")) and word != RUN for word in words)
            if line.fence.language == "console" and words[0] == "rmt" and words[1] in TRIED and not elsewhere:
                yield line


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs that the pages talk about, but tiny and untrained."""
    folder = tmp_path_factory.mktemp("workplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Copy, "sizes", {"train": 1000, "valid": 20, "test": 20})
        patch.chdir(folder)
        assert main(["train", "copy", "--out", RUN, *TINY]) == 0
        Path("book.txt").write_text("It was the best of times. " * 400)
        assert main(["train", "text", "--data", "book.txt", "--out", TEXT_RUN, *TINY]) == 0
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
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_blocks_of_a_page_run_and_print_what_it_says(page, monkeypatch):
    module = types.ModuleType(page.stem)  # as the blocks would be in a file of their own
    monkeypatch.setitem(sys.modules, page.stem, module)
    for block in fences(page):
        if block.language == "python" and not block.title:
            printed = block.run(module)
            assert printed == (block.printed or printed)


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("command", list(commands()), ids=str)
def test_a_command_of_a_page_does_what_it_says(command, capsys):
    arguments, output = shlex.split(command.text, comments=True)[1:], command.output
    if arguments[0] in ("train", "finetune"):
        arguments = [*arguments, "--print_config"]
    elif arguments[0] == "evaluate":
        arguments = [*arguments, "--samples", "5"]
    if command.fails:
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
