"""Whatever a record of a cell holds, a report shows it or one line says what is wrong with it."""

import copy
import json
import sys
from itertools import cycle
from pathlib import Path

import pytest

from rmt.experiments.cell_records import load_cells
from rmt.experiments.cells import PlannedCell
from rmt.experiments.recipe import merge
from tests.cli.command import rmt
from tests.covering import in_turns
from tests.disks import full_disk
from tests.experiments.records import made_record, made_run
from tests.experiments.tiny import ECHO

ODD = [None, True, "x", [1], {"a": 1}, -1, 10**400, float("nan")]
COPY = PlannedCell(
    name="copy-3-3-rmt-2",
    exhibits=("figure-3",),
    settings=merge(ECHO, {"task": {"name": "copy"}}),
    rates=(0.01, 0.1),
)
SETTINGS = {"backbone": "bert", "segments": 2, "segment_length": None, "memory": 10, "depth": "full"}
SETTINGS |= {"batch": 16, "epochs": 10.0}
RECORDS = {
    "train": made_record(COPY, [0.5, 0.6]),
    "finetune": {
        "cell": {"name": "hyperpartisan-bert-2", "exhibits": ["table-3"], "command": "finetune"},
        "rate": 1e-5,
        "trials": [{"rate": 1e-5, "run": "rate-1e-05", "validation": 0.9}],
        "metric": "f1",
        "runs": [{**made_run("rate-1e-05", 0, 0.9, []), "curve": []}],
        "config": SETTINGS,
    },
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def report(capsys, content: bytes):
    """What `rmt report` answers to a file of this content: at most one line of error, no traceback."""
    Path("cells.jsonl").write_bytes(content)
    answer = rmt(capsys, "report cells.jsonl --html page.html --latex tables.tex --records again.jsonl")
    assert answer.code in (0, 2)
    assert answer.err.count("\n") == (1 if answer.code else 0)
    return answer


def test_a_page_is_there_whole_before_anything_is_printed(capsys, monkeypatch):
    Path("cells.jsonl").write_text(json.dumps(RECORDS["train"]) + "\n")
    monkeypatch.setattr("builtins.print", lambda *_: Path("page.html").rename("printed.html"))
    assert rmt(capsys, "report cells.jsonl --html page.html").code == 0
    assert Path("printed.html").read_text().endswith("</html>")


def test_a_full_disk_leaves_the_page_that_was_there(capsys):
    Path("cells.jsonl").write_text(json.dumps(RECORDS["train"]) + "\n")
    Path("page.html").write_text("old")
    with full_disk(1000):
        answer = rmt(capsys, "report cells.jsonl --html page.html")
    assert answer.code == 2
    assert answer.out == ""
    assert "page.html' cannot be written (File too large); free some space" in answer.err
    assert Path("page.html").read_text() == "old"


def places(tree, path=()):
    """The paths of everything in a tree; of the items of a list, the first."""
    items = tree.items() if isinstance(tree, dict) else list(enumerate(tree))[:1]
    for key, value in items:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def with_value(tree, path, *value):
    """A copy of a tree with another value at a path, or without it."""
    changed = copy.deepcopy(tree)
    group = changed
    for key in path[:-1]:
        group = group[key]
    if value:
        group[path[-1]] = value[0]
    else:
        del group[path[-1]]
    return json.dumps(changed).encode()


@pytest.mark.parametrize("kind", RECORDS)
def test_a_whole_record_is_shown(capsys, kind):
    answer = report(capsys, json.dumps(RECORDS[kind]).encode())
    assert answer.code == 0, answer.err
    assert RECORDS[kind]["cell"]["name"] in Path("page.html").read_text()


@pytest.mark.parametrize(
    "content", [b"\x8c\xff", b"{", b'{"cell": 1}', b'{"cell": {}}', b'{"cell": {"name": "x"}}']
)
def test_what_is_no_record_is_one_line_that_names_the_file(capsys, content):
    answer = report(capsys, content)
    assert answer.code == 2
    assert "'cells.jsonl'" in answer.err
    assert "name run folders or .jsonl files" in answer.err


@pytest.mark.parametrize("turn", in_turns(ODD))
@pytest.mark.parametrize("kind", RECORDS)
def test_odd_values_of_any_field_are_no_traceback(capsys, kind, turn):
    for path, value in zip(places(RECORDS[kind]), cycle(turn), strict=False):
        report(capsys, with_value(RECORDS[kind], path, value))


@pytest.mark.parametrize("kind", RECORDS)
def test_missing_fields_are_no_traceback(capsys, kind):
    for path in places(RECORDS[kind]):
        report(capsys, with_value(RECORDS[kind], path))


def test_answers_of_documents_by_segment_and_a_text_of_full_depth_are_shown(capsys):
    segments = with_value(RECORDS["finetune"], ("runs", 0, "by_segment"), {"0": 0.5, "1": 0.6})
    assert report(capsys, segments).code == 0
    text = {**COPY.settings, "task": {"name": "copy", "data": "book"}}
    rows = [{**RECORDS["train"]["config"], **text, "bptt": {"depth": depth}} for depth in ("full", 1, 2)]
    records = [with_value(RECORDS["train"], ("config",), config) for config in rows]
    lines = [line.replace(b"figure-3", b"figure-5") for line in records]
    assert report(capsys, b"\n".join(lines)).code == 0


def test_a_task_that_a_record_names_runs_only_with_trust(capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("stranger.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    record = with_value(RECORDS["train"], ("config", "task", "name"), "stranger:Task")
    assert "config.task.name='stranger:Task'" in report(capsys, record).err
    assert not Path("ran").exists()
    rmt(capsys, "report cells.jsonl --trust")
    assert Path("ran").exists()
    sys.modules.pop("stranger")


def write_cells(file: Path, *records: dict) -> Path:
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def test_a_cell_that_was_trained_once_is_one_record_the_fullest_part_of_all_figures():
    first = made_record(COPY, [0.5])
    fuller = made_record(COPY.replaced(seeds=2, exhibits=("figure-8",)), [0.5, 0.6])
    files = [write_cells(Path("a.jsonl"), first), write_cells(Path("b.jsonl"), fuller)]
    for order in (files, files[::-1]):
        [record] = load_cells(order, pytest.fail)
        assert [run["value"] for run in record["runs"]] == [0.5, 0.6]
        assert set(record["cell"]["exhibits"]) == {"figure-3", "figure-8"}


def test_a_cell_that_was_trained_twice_is_two_records():
    again = made_record(COPY, [0.4, 0.6])
    other = made_record(COPY.over({"train": {"steps": 5}}), [0.5, 0.6])
    file = write_cells(Path("a.jsonl"), RECORDS["train"], again, other)
    assert len(load_cells([file], pytest.fail)) == 3


def test_an_edited_number_of_written_records_is_noticed(capsys):
    write_cells(Path("cells.jsonl"), RECORDS["train"])
    rmt(capsys, "report cells.jsonl --records kept.jsonl")
    assert rmt(capsys, "report kept.jsonl").code == 0
    Path("kept.jsonl").write_text(Path("kept.jsonl").read_text().replace('"value": 0.6', '"value": 0.9'))
    answer = rmt(capsys, "report kept.jsonl")
    assert (answer.code, answer.out) == (2, "")
    assert "'kept.jsonl' is damaged: its content does not match its sha256" in answer.err


def test_cells_are_shown_where_a_run_beside_them_is_damaged(capsys):
    Path("runs").mkdir()
    Path("runs/result.json").write_text("{")
    Path("cells.jsonl").write_text(json.dumps(RECORDS["train"]) + "\n")
    answer = rmt(capsys, "report cells.jsonl runs --html page.html")
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.out.startswith("1 cell with 2 runs")
    assert Path("page.html").exists()


@pytest.mark.parametrize("content", ["{", '{"cell": {"name": "x"}}'])
def test_a_damaged_cell_below_a_folder_is_named_with_its_remedy_and_the_rest_is_shown(capsys, content):
    for name, text in (("whole", json.dumps(RECORDS["train"])), ("damaged", content)):
        Path("runs", name).mkdir(parents=True)
        Path("runs", name, "cell.json").write_text(text)
    answer = rmt(capsys, "report runs")
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.err.startswith("rmt: passed over: 'runs/damaged/cell.json' ")
    assert answer.err.endswith("; delete it and run the command again\n")
    assert answer.out.startswith("1 cell with 2 runs")
    for path in ("runs/damaged", "runs/damaged/cell.json"):
        answer = rmt(capsys, f"report {path}")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.endswith("; delete it and run the command again\n")
