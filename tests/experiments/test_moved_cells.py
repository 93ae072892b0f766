"""A folder of cells is the same folder wherever it lies: what names a cell or its text is not where it is."""

import json
import shutil
from pathlib import Path

import pytest

from rmt.config import to_dict
from rmt.errors import ConfigError
from rmt.experiments import launchers, suites
from rmt.experiments.cell_text import refuse_other_text, with_text
from rmt.experiments.cells import PlannedCell, is_begun, load_cell, record_of, write_cell
from rmt.experiments.comparison import rows_of
from rmt.experiments.made_text import MADE_TEXT, write_made_text
from rmt.experiments.recipe import merge
from rmt.experiments.run import train
from rmt.experiments.suites import Order, Ordered, plan
from rmt.experiments.worker import main
from rmt.train.config import build_task
from rmt.train.folder import load_result
from tests.cli.command import rmt
from tests.experiments.forked import ForkedJob
from tests.train.runs import Unplugged, Watcher, metrics
from tests.train.texts import text, write_corpus

SMALL = {
    "task": {"name": "text", "data": MADE_TEXT, "segment_length": 8},
    "model": {"layers": 1, "heads": 1, "head_width": 4, "width": 8, "inner_width": 8, "memory": {"size": 2}},
    "train": {"batch": 64, "steps": 2, "evaluate_every": 2},
    "device": "cpu",
}


def cell(seeds: int = 1) -> PlannedCell:
    return PlannedCell(name="made-text-rmt", exhibits=("table-4",), settings=SMALL, seeds=seeds)


def work(folder: Path, seeds: int = 1) -> dict:
    """The record that a worker leaves of the cell."""
    write_made_text([cell()], folder)
    assert main([str(write_cell(cell(seeds), folder))]) == 0
    return json.loads((folder / cell().name / "cell.json").read_text())


def test_a_plan_names_no_folder():
    cells = plan(Order(name="all", scale="tiny")).cells
    texts = [planned for planned in cells if planned.settings["task"]["name"] == "text"]
    assert {planned.settings["task"]["data"] for planned in texts} == {MADE_TEXT}
    assert {planned.located(Path("runs/a")).settings["task"]["data"] for planned in texts} == {
        "runs/a/made-text"
    }
    assert [planned.located(Path("runs/a")) for planned in cells if planned not in texts] == [
        planned for planned in cells if planned not in texts
    ]


def test_a_text_that_a_user_names_is_where_it_was():
    cells = plan(Order(name="table-4", scale="tiny", data="books/made-text")).cells
    assert {planned.located(Path("runs")).settings["task"]["data"] for planned in cells} == {
        "books/made-text"
    }


def test_a_moved_folder_of_cells_goes_on(tmp_path):
    record = work(tmp_path / "first")
    assert record["cell"] == to_dict(with_text(cell(), tmp_path / "first"))
    (tmp_path / "first").rename(tmp_path / "second")
    assert record_of(cell(), tmp_path / "second")["runs"] == record["runs"]
    trained = (tmp_path / "second" / cell().name / "seed-0" / "result.json").stat().st_mtime_ns
    again = work(tmp_path / "second", seeds=2)
    assert [run["seed"] for run in again["runs"]] == [0, 1]
    assert again["runs"][0] == record["runs"][0]
    assert (tmp_path / "second" / cell().name / "seed-0" / "result.json").stat().st_mtime_ns == trained


def test_a_cell_stays_part_of_what_it_was_planned_for(tmp_path):
    write_made_text([cell()], tmp_path)
    begun = write_cell(cell(), tmp_path)
    (tmp_path / cell().name / "rate-1").mkdir(parents=True)
    (tmp_path / cell().name / "rate-1" / "config.yaml").touch()
    other = cell().replaced(exhibits=("table-5",))
    assert set(load_cell(write_cell(other, tmp_path)).exhibits) == {"table-4", "table-5"}
    assert main([str(begun)]) == 0
    assert main([str(write_cell(cell(seeds=2).replaced(exhibits=("table-2",)), tmp_path))]) == 0
    record = record_of(cell(seeds=2), tmp_path)
    assert set(record["cell"]["exhibits"]) == {"table-2", "table-4", "table-5"}
    assert len(record["runs"]) == 2


def test_the_command_goes_on_in_a_moved_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)
    monkeypatch.setattr(suites, "plan", lambda order: Ordered([cell()], {}))
    monkeypatch.chdir(tmp_path)
    assert rmt(capsys, "reproduce table-4 --device cpu --out first").code == 0
    Path("first").rename("second")
    again = rmt(capsys, "reproduce table-4 --device cpu --out second")
    assert (again.code, "to go)" in again.out) == (0, False), again.out + again.err
    rmt(capsys, "report second --records records.jsonl")
    taken = rmt(capsys, "reproduce table-4 --device cpu --out third --records records.jsonl")
    assert taken.code == 0, taken.err
    assert "records.jsonl: 1 of 1 cells are finished\n" in taken.out


def test_the_made_text_is_known_whether_it_was_there_at_the_plan_or_not(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)
    monkeypatch.setattr(suites, "plan", lambda order: Ordered([cell()], {}))
    monkeypatch.chdir(tmp_path)
    write_made_text([cell()], Path("second"))
    for out in ("first", "second"):
        assert rmt(capsys, f"reproduce table-4 --device cpu --out {out}").code == 0
    planned = [load_cell(Path(out) / "made-text-rmt.yaml") for out in ("first", "second")]
    assert planned[0].text
    assert planned[0] == planned[1]


def test_the_text_of_a_cell_is_looked_at_once_by_a_plan(capsys, tmp_path, monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        "rmt.experiments.cell_text.build_task", lambda task: looked_at.append(task) or build_task(task)
    )
    monkeypatch.setattr(suites, "plan", lambda order: Ordered([cell()], {}))
    monkeypatch.chdir(tmp_path)
    assert rmt(capsys, "reproduce table-4 --device cpu --out runs --dry_run").code == 0
    assert len(looked_at) == 1
    assert not Path("runs").exists()


@pytest.mark.parametrize("folder", ["runs/reproduce-tiny", "/elsewhere"])
def test_records_that_say_where_the_text_lay_are_recognised(folder):
    former = cell().over({"task": {"data": f"{folder}/made-text"}})
    assert is_begun({"cell": to_dict(former)}, cell())
    assert not is_begun({"cell": to_dict(former.over({"seed": 1}))}, cell())
    assert not is_begun({"cell": to_dict(former)}, cell().over({"task": {"data": "books/made-text"}}))
    for settings in (None, {}, {"task": [1]}, {"task": {"data": 3}}):
        assert not is_begun({"cell": {**to_dict(former), "settings": settings}}, cell())


def test_a_stopped_run_whose_data_were_moved_ends_as_if_nothing_had_been(tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    train(text(corpus), tmp_path / "whole", Watcher())
    with pytest.raises(Unplugged):
        train(text(corpus), tmp_path / "run", Watcher(stop=8))
    moved = shutil.move(corpus, tmp_path / "moved")
    watcher = Watcher()
    result, _ = train(text(moved), tmp_path / "run", watcher)
    assert watcher.messages[0] == "resuming at step 6"
    assert result["metrics"] == load_result(tmp_path / "whole")["metrics"]
    assert result["config"]["task"]["data"] == str(moved)
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    assert train(text(moved), tmp_path / "whole", Watcher())[1], "finished, wherever its data are now"


def test_a_run_that_was_killed_before_its_first_checkpoint_knows_its_data_too(tmp_path):
    corpus = write_corpus(tmp_path / "corpus")
    with pytest.raises(Unplugged):
        train(text(corpus), tmp_path / "run", Watcher(stop=1))
    assert not [*(tmp_path / "run").glob("checkpoints/step_*")]
    moved = shutil.move(corpus, tmp_path / "moved")
    assert train(text(moved), tmp_path / "run", Watcher())[0]["steps"] == 12


def test_another_text_is_another_run(tmp_path):
    corpora = [write_corpus(tmp_path / str(seed), seed) for seed in (0, 1)]
    train(text(corpora[0]), tmp_path / "run", Watcher())
    with pytest.raises(ConfigError, match=rf"with task\.data={corpora[0]}, not {corpora[1]}; name another"):
        train(text(corpora[1]), tmp_path / "run", Watcher())
    other = merge(to_dict(text(corpora[0])), {"train": {"steps": 5}})
    moved = shutil.move(corpora[0], tmp_path / "moved")
    with pytest.raises(ConfigError, match=r"with train\.steps=12, not 5"):
        train(text(moved, train={"steps": other["train"]["steps"]}), tmp_path / "run", Watcher())


def text_cell(corpus: Path | str, seeds: int = 1) -> PlannedCell:
    return cell(seeds).over({"task": {"data": str(corpus)}, "train": {"batch": 4}})


def trained_on(corpus: Path, folder: Path, seeds: int = 1) -> dict:
    """The record that the command has a worker leave of a cell of a text."""
    planned = with_text(text_cell(corpus, seeds), folder)
    assert main([str(write_cell(planned, folder))]) == 0
    return json.loads((folder / planned.name / "cell.json").read_text())


@pytest.fixture
def corpora(tmp_path):
    """Two texts in folders of one name."""
    return [write_corpus(tmp_path / str(seed), seed) for seed in (0, 1)]


def test_a_run_of_a_record_says_of_which_text_it_is(tmp_path, corpora):
    record = trained_on(corpora[0], tmp_path / "runs")
    task = json.loads((tmp_path / "runs/made-text-rmt/seed-0/task.json").read_text())
    assert record["runs"][0]["fingerprint"] == task["fingerprint"] == record["cell"]["text"]


def test_a_text_is_the_same_however_it_is_spelled_and_wherever_a_copy_lies(tmp_path, corpora, monkeypatch):
    record = trained_on(corpora[0], tmp_path / "runs")
    shutil.copytree(corpora[0], tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    for spelled in ("0/prepared/", "0/prepared", tmp_path / "0/prepared", "copy"):
        planned = with_text(text_cell(spelled), tmp_path / "runs")
        assert is_begun(record, planned), spelled
    assert not is_begun(record, with_text(text_cell("1/prepared"), tmp_path / "runs"))


def test_a_cell_of_another_text_at_the_same_place_is_refused(tmp_path, corpora, caplog):
    trained_on(corpora[0], tmp_path / "runs")
    shutil.rmtree(corpora[0])
    shutil.move(corpora[1], corpora[0])
    assert main([str(write_cell(text_cell(corpora[0], seeds=2), tmp_path / "runs"))]) == 2
    assert "holds made-text-rmt/seed-0 of another text than" in caplog.messages[-1]
    with pytest.raises(ConfigError, match="holds made-text-rmt/seed-0 of another text"):
        refuse_other_text(with_text(text_cell(corpora[0]), tmp_path / "runs"), tmp_path / "runs")


def test_a_record_without_fingerprints_is_known_by_the_name_of_its_text(tmp_path, corpora):
    record = trained_on(corpora[0], tmp_path / "runs")
    del record["runs"][0]["fingerprint"], record["cell"]["text"]
    planned = with_text(text_cell(corpora[0]), tmp_path)
    assert is_begun(record, planned)
    assert not is_begun(record, with_text(text_cell(corpora[1]), tmp_path))


def test_records_of_a_copy_of_the_text_are_taken(capsys, tmp_path, corpora, monkeypatch):
    trained_on(corpora[0], tmp_path / "runs")
    shutil.copytree(corpora[0], tmp_path / "copy")
    named = text_cell(tmp_path / "copy").replaced(name="copy-rmt")
    monkeypatch.setattr(suites, "plan", lambda order: Ordered([named], {}))
    monkeypatch.chdir(tmp_path)
    assert rmt(capsys, "report runs --records records.jsonl").code == 0
    taken = rmt(capsys, "reproduce table-4 --device cpu --out elsewhere --records records.jsonl")
    assert "records.jsonl: 1 of 1 cells are finished\n" in taken.out, taken.err
    assert json.loads(Path("elsewhere/copy-rmt/cell.json").read_text())["cell"]["name"] == "copy-rmt"


def test_rows_of_two_texts_of_one_name_are_told_apart(tmp_path, corpora):
    records = [trained_on(corpus, tmp_path / f"runs-{corpus.parent.name}") for corpus in corpora]
    tasks = [row.task for row in rows_of(records)["table-4"]]
    assert len(set(tasks)) == 2
    assert all(task.startswith("prepared (") for task in tasks)
    for run in records[1]["runs"]:
        del run["fingerprint"]
    assert {row.task for row in rows_of(records)["table-4"]} == {"prepared"}


def test_a_record_with_runs_of_two_texts_is_refused(capsys, tmp_path, corpora):
    record = trained_on(corpora[0], tmp_path / "runs", seeds=2)
    del record["sha256"]
    record["runs"][1]["fingerprint"] = "0" * 16
    (tmp_path / "mixed.jsonl").write_text(json.dumps(record) + "\n")
    answer = rmt(capsys, f"report {tmp_path / 'mixed.jsonl'}")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "its runs are of several texts" in answer.err
