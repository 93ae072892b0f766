"""`rmt reproduce`: the cells of a figure side by side, never twice; a plan can be had without training."""

import json
from pathlib import Path

import pytest

from rmt.cli.reproduce import time_of
from rmt.experiments import launchers, suites
from rmt.experiments.suites import Ordered
from tests.cli.command import TRAIN, rmt
from tests.experiments.forked import ForkedJob
from tests.experiments.records import made_record
from tests.experiments.tiny import echo_cell


@pytest.fixture
def comparison(monkeypatch):
    """A figure of two cells of a second each."""
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)
    cells = [
        echo_cell("first"),
        echo_cell("second", {"preset": "baseline", "model": {"memory": {"size": 0}}}),
    ]
    monkeypatch.setattr(suites, "plan", lambda order: Ordered(cells, {"table-1": "it takes too long"}))
    return cells


def test_a_dry_run_prints_every_cell_with_its_time_and_leaves_nothing(capsys):
    answer = rmt(capsys, "reproduce figure-5 --scale tiny --dry_run --workers 2 --device cpu")
    assert answer.code == 0, answer.err
    *cells, total = answer.out.splitlines()
    assert [line.split("  ")[0] for line in cells][:2] == ["made-text-baseline", "made-text-transformer_xl-2"]
    assert all("3 rates, 1 seed, 750 updates, " in line for line in cells)
    assert total.startswith(f"{len(cells)} cells, about ")
    assert "minutes of an idle CPU core (about " in total
    assert total.endswith(" with 2 workers)")
    assert list(Path().iterdir()) == []


def test_quietly_there_is_the_report_only_and_what_failed(capsys, comparison):
    answer = rmt(capsys, "reproduce figure-3 --scale tiny --device cpu --quiet --out runs")
    assert answer.code == 0, answer.err
    assert "to go" not in answer.out
    assert "## Claims" in answer.out


def test_a_plan_is_of_the_device_that_was_named(capsys):
    command = "reproduce figure-8 --scale gpu --only copy-24-3-* --dry_run"
    for words, machine in (("", "one NVIDIA H200"), ("--device cpu", "an idle CPU core")):
        assert rmt(capsys, f"{command} {words}").out.endswith(f" minutes of {machine}\n")


def test_a_plan_says_whose_data_are_not_here(capsys):
    answer = rmt(capsys, "reproduce table-4 --scale gpu --dry_run --data nowhere/enwik8")
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == "5 cells whose time is not known"


def test_a_plan_for_another_machine_says_that_the_articles_are_not_here(capsys):
    command = "reproduce table-3 --scale gpu --backbones bert --data nowhere --dry_run --launcher slurm"
    answer = rmt(capsys, command)
    assert answer.code == 0
    assert answer.out.count("  data='nowhere' has no articles-") == 3


def test_a_plan_says_how_to_get_data_by_options_that_it_has(capsys):
    answer = rmt(capsys, "reproduce figure-5 --scale gpu --dry_run")
    assert "run rmt data get enwik8-204, or name a prepared copy with --data FOLDER" in answer.out
    assert "--path" not in answer.out


def test_times_that_are_known_in_part_are_of_so_many_cells():
    assert time_of([60.0, 60.0], "a GPU") == "2 cells, about 2 minutes of a GPU"
    assert time_of([60.0, 120.0, None], "a GPU", 2) == (
        "3 cells: 2 of them about 3 minutes of a GPU (about 2 with 2 workers), 1 whose time is not known"
    )
    assert time_of([None], "a GPU", 2) == "1 cell whose time is not known"


def test_a_cell_that_fails_says_why_and_the_others_are_not_trained_again(capsys, comparison):
    whole = comparison[0]
    comparison[0] = whole.over({"task": {"segments": 77}})
    answer = rmt(capsys, "reproduce figure-3 --workers 2 --device cpu --out runs")
    assert answer.code == 1
    assert "table-1 is left out: it takes too long" in answer.out
    assert "first  rmt: segments=77 does not fit" in answer.out
    assert "second  accuracy" in answer.out
    left = "1 of 2 cells are not finished; runs/first.log says why"
    assert answer.err == f"rmt: {left}; the same command goes on\n"
    written = Path("runs/second/cell.json").stat().st_mtime_ns
    comparison[0] = whole
    answer = rmt(capsys, "reproduce figure-3 --workers 2 --device cpu --out runs")
    assert answer.code == 0, answer.out + answer.err
    assert "first  accuracy" in answer.out
    assert answer.out.count("(0 to go)") == 1
    assert Path("runs/second/cell.json").stat().st_mtime_ns == written
    assert json.loads(Path("runs/first/cell.json").read_text())["cell"]["settings"]["device"] == "cpu"


def test_no_time_is_no_result_and_nothing_left_running(capsys, comparison):
    answer = rmt(capsys, "reproduce figure-3 --seconds 0 --out runs")
    assert answer.code == 1
    assert not Path("runs/first/cell.json").exists()
    assert answer.err == "rmt: 2 of 2 cells are not finished after 0 s; the same command goes on\n"


@pytest.fixture
def copies(monkeypatch):
    """A figure of two cells, and a file with what came out of the first on another machine."""
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)
    first, second = (echo_cell(name, {"task": {"name": "copy"}}) for name in ("first", "second"))
    monkeypatch.setattr(suites, "plan", lambda order: Ordered([first, second], {}))
    Path("elsewhere.jsonl").write_text(json.dumps(made_record(first, [0.75])) + "\n")
    return [first, second]


@pytest.mark.parametrize("device", ["auto", "cpu"])  # records are of a cell on a CPU
def test_what_was_trained_elsewhere_is_not_trained_again(capsys, copies, device):
    answer = rmt(capsys, f"reproduce figure-3 --records elsewhere.jsonl --device {device} --out runs")
    assert answer.code == 0, answer.err
    taken, *ended = [line for line in answer.out.splitlines() if "finished" in line or "to go" in line]
    assert taken == "elsewhere.jsonl: 1 of 2 cells are finished"
    assert [line.split("  ")[0] for line in ended] == ["second"]
    assert [file.name for file in Path("runs/first").iterdir()] == ["cell.json"]
    rmt(capsys, "report runs --records both.jsonl")
    cells = [json.loads(line) for line in Path("both.jsonl").read_text().splitlines()]
    assert [cell["cell"]["name"] for cell in cells] == ["first", "second"]
    former = json.loads(Path("elsewhere.jsonl").read_text())
    assert cells[0] == former | {name: cells[0][name] for name in ("config", "sha256")}


def test_a_plan_leaves_out_what_is_finished_here_or_elsewhere(capsys, copies):
    plan = "reproduce figure-3 --dry_run --device cpu --out runs"
    both = rmt(capsys, plan).out.splitlines()
    assert [line.split("  ")[0] for line in both[:-1]] == ["first", "second"]
    finished, second, total = rmt(capsys, f"{plan} --records elsewhere.jsonl").out.splitlines()
    assert (finished, second.split("  ")[0]) == ("1 of 2 cells are finished", "second")
    assert total.startswith("1 cell, about ")
    assert not Path("runs").exists()
    rmt(capsys, "reproduce figure-3 --records elsewhere.jsonl --device cpu --out runs")
    assert rmt(capsys, plan).out.splitlines()[0] == "2 of 2 cells are finished"


def test_runs_beside_cells_are_reported_too(capsys, copies):
    rmt(capsys, "reproduce figure-3 --records elsewhere.jsonl --device cpu --out runs/cells")
    only_cells = rmt(capsys, "report runs").out
    assert rmt(capsys, f"{TRAIN} --out runs/alone --quiet").code == 0
    both = rmt(capsys, "report runs")
    assert both.code == 0
    assert both.out.startswith(only_cells.rstrip())
    assert both.out != only_cells
    assert both.out.rstrip().endswith(rmt(capsys, "report runs/alone").out.rstrip())


def test_the_runs_of_a_cell_are_shown_where_they_are_named(capsys, comparison):
    rmt(capsys, "reproduce figure-3 --only first --workers 1 --device cpu --out runs")
    [run] = Path("runs/first").glob("*/")
    for named in (run, run / "result.json"):
        answer = rmt(capsys, f"report {named}")
        assert (answer.code, answer.out.count("\n| ")) == (0, 2), answer.err


def test_a_cell_is_counted_once_and_two_of_one_name_are_told_apart(capsys, copies):
    rmt(capsys, "reproduce figure-3 --records elsewhere.jsonl --device cpu --out runs")
    once = rmt(capsys, "report runs --records records.jsonl").out
    assert rmt(capsys, "report runs records.jsonl runs/first").out == once
    other = copies[0].over({"train": {"steps": 5}})
    Path("other.jsonl").write_text(json.dumps(made_record(other, [0.75])) + "\n")
    both = rmt(capsys, "report runs other.jsonl --html page.html").out
    assert both.startswith("3 cells with 3 runs")
    page = Path("page.html").read_text()
    assert page.count('id="figure-3.first"') == 1
    assert page.count('id="figure-3.first (2)"') == 1
    assert page.count('data-runs="first/') == 2


def test_records_of_other_cells_finish_none_and_that_is_said(capsys, copies):
    other = copies[0].over({"train": {"steps": 5}})
    Path("elsewhere.jsonl").write_text(json.dumps(made_record(other, [0.75])) + "\n")
    answer = rmt(capsys, "reproduce figure-3 --records elsewhere.jsonl --seconds 0 --out runs")
    assert "elsewhere.jsonl: 0 of 2 cells are finished" in answer.out
    assert "elsewhere.jsonl has none of the 2 cells as they are planned" in answer.err
    assert not Path("runs/first").exists()


@pytest.mark.parametrize("path", ["nowhere", "nowhere.jsonl", "empty.jsonl", "empty"])
def test_records_that_are_none_are_refused(capsys, copies, path):
    Path("empty").mkdir()
    Path("empty.jsonl").write_text("")
    answer = rmt(capsys, f"reproduce figure-3 --records {path} --out runs")
    assert (answer.code, answer.out) == (2, "")
    assert f"records='{path}' holds no cells; name a file that" in answer.err


def test_of_two_records_of_a_cell_the_fuller_one_counts(capsys, copies):
    copies[0] = copies[0].replaced(seeds=2)
    lines = [made_record(copies[0], [0.75, 0.5]), made_record(copies[0], [0.25])]
    Path("elsewhere.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    suites.plan = lambda order: Ordered(copies, {})
    out = rmt(capsys, "reproduce figure-3 --only first --records elsewhere.jsonl --out runs").out
    assert "elsewhere.jsonl: 1 of 1 cells are finished" in out
    assert json.loads(Path("runs/first/cell.json").read_text())["runs"][0]["value"] == 0.75


def test_a_plan_of_more_seeds_has_those_that_are_missing(capsys, copies):
    copies[0] = copies[0].replaced(seeds=3, rates=(0.01, 0.02))
    Path("elsewhere.jsonl").write_text(json.dumps(made_record(copies[0], [0.75, 0.5])) + "\n")
    suites.plan = lambda order: Ordered(copies, {})
    plan = "reproduce figure-3 --only first --records elsewhere.jsonl --dry_run --device cpu"
    assert rmt(capsys, plan).out.startswith("first  1 seed, 4 updates, ")


def test_a_record_at_another_rate_than_seeds_that_were_begun_here_is_not_taken(capsys, copies):
    copies[0] = copies[0].replaced(seeds=2, rates=(0.01, 0.02))
    suites.plan = lambda order: Ordered(copies, {})
    command = "reproduce figure-3 --only first --device cpu --out runs"
    assert rmt(capsys, command).code == 0
    here = json.loads(Path("runs/first/cell.json").read_text())
    Path("runs/first/cell.json").unlink()
    other = made_record(copies[0], [0.75]) | {"rate": 0.02 if here["rate"] == 0.01 else 0.01}
    Path("elsewhere.jsonl").write_text(json.dumps(other) + "\n")
    answer = rmt(capsys, f"{command} --records elsewhere.jsonl")
    assert answer.code == 0, answer.out
    assert json.loads(Path("runs/first/cell.json").read_text())["runs"] == here["runs"]


def test_what_a_record_has_of_a_cell_is_not_trained_again_when_more_seeds_are_wanted(capsys, copies):
    copies[0] = copies[0].replaced(seeds=2)
    suites.plan = lambda order: Ordered(copies, {})  # the fixture puts the old one back
    answer = rmt(capsys, "reproduce figure-3 --only first --records elsewhere.jsonl --device cpu --out runs")
    assert answer.code == 0, answer.err
    assert "elsewhere.jsonl: 0 of 1 cells are finished" in answer.out
    assert [file.name for file in Path("runs/first").iterdir() if file.is_dir()] == ["seed-1"]
    runs = json.loads(Path("runs/first/cell.json").read_text())["runs"]
    assert (runs[0]["value"], [run["seed"] for run in runs]) == (0.75, [0, 1])


def test_a_record_is_of_its_cell_in_whatever_figure_that_is_shown(capsys, copies):
    rmt(capsys, "reproduce figure-3 --only first --records elsewhere.jsonl --out runs")
    copies[0] = copies[0].replaced(exhibits=("figure-8",))
    suites.plan = lambda order: Ordered(copies[:1], {})
    answer = rmt(capsys, "reproduce figure-8 --out runs")
    assert answer.code == 0
    assert json.loads(Path("runs/first/cell.json").read_text())["cell"]["exhibits"] == [
        "figure-3",
        "figure-8",
    ]


def test_cells_can_be_chosen_by_their_names(capsys):
    plan = "reproduce figure-3 --scale gpu --dry_run"
    *cells, _ = rmt(capsys, f"{plan} --only copy-24-9-*,reverse-24-2-rmt-24").out.splitlines()
    names = {line.split("  ")[0] for line in cells}
    assert {"copy-24-9-rmt-8", "copy-24-9-baseline", "reverse-24-2-rmt-24"} < names
    assert all(name.startswith("copy-24-9-") for name in names - {"reverse-24-2-rmt-24"})
    answer = rmt(capsys, f"{plan} --only copy-24-9-rmt-9")
    assert answer.code == 2
    assert answer.err.startswith("rmt: unknown only 'copy-24-9-rmt-9'; did you mean 'copy-24-9-rmt-8'")


def test_a_plan_of_several_figures_has_the_time_of_each(capsys):
    lines = rmt(capsys, "reproduce all --scale tiny --dry_run --device cpu").out.splitlines()
    figures = [line for line in lines if line.startswith(("figure-3: ", "figure-4: "))]
    assert len(figures) == 2
    assert all("cells, about" in line and line.endswith("minutes of an idle CPU core") for line in figures)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("reproduce figure-6", "unknown figure or table 'figure-6'; did you mean 'figure-"),
        ("reproduce copies", "unknown figure or table 'copies'"),
        ("reproduce table-3", "table-3 has nothing at scale tiny"),
        ("reproduce figure-3 --data book.txt", "data=book.txt has no effect on figure-3"),
        ("reproduce figure-3 --workers 0", "workers=0 must be at least 1"),
        (
            "reproduce table-3 --scale gpu --backbones bert --data nowhere --dry_run",
            "data='nowhere' has no articles-training-byarticle-20181122.xml: it is part of SemEval-2019",
        ),
        ("reproduce table-3 --steps 5", "steps=5 has no effect on table-3"),
        ("reproduce figure-3 --launcher qsub", "launcher='qsub' is not known: use local, slurm, ray"),
        ("reproduce figure-3 --launcher qsub --dry_run", "launcher='qsub' is not known: use local, slurm"),
    ],
)
def test_bad_input_is_one_line(capsys, command, message):
    answer = rmt(capsys, command)
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not Path("runs").exists()


def contents(folder: str) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(Path(folder).rglob("*")) if file.is_file()}


def test_other_settings_in_the_same_folder_are_refused_before_anything_is_written(capsys, comparison):
    command = "reproduce figure-3 --device cpu --out runs"
    assert rmt(capsys, command).code == 0
    before = contents("runs")
    first = comparison[0]
    comparison[0] = first.over({"train": {"steps": 5}})
    for words in ("", " --dry_run"):
        answer = rmt(capsys, command + words)
        assert answer.code == 2
        assert "to go" not in answer.out
        assert answer.err == (
            "rmt: out='runs' holds first with steps=4, not 5; name another --out, or go back to steps=4\n"
        )
    assert contents("runs") == before
    comparison[0] = first
    assert rmt(capsys, command).code == 0


def test_other_settings_over_runs_that_are_not_finished_are_refused_too(capsys, comparison):
    command = "reproduce figure-3 --only first --device cpu --out runs"
    assert rmt(capsys, command).code == 0
    Path("runs/first/cell.json").unlink()
    comparison[0] = comparison[0].replaced(rates=(0.01, 0.02))
    answer = rmt(capsys, command)
    assert answer.code == 2
    assert "out='runs' holds first with rates=[], not [0.01, 0.02]; name another --out" in answer.err


def test_more_seeds_other_figures_and_another_device_are_no_other_settings(capsys, comparison):
    assert rmt(capsys, "reproduce figure-3 --only first --device cpu --out runs").code == 0
    comparison[0] = comparison[0].replaced(seeds=2, exhibits=("figure-8",))
    answer = rmt(capsys, "reproduce figure-3 --only first --device auto --out runs")
    assert answer.code == 0, answer.err
    assert "first  accuracy" in answer.out


def test_a_device_that_is_not_here_is_said_at_once(capsys, comparison, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    answer = rmt(capsys, "reproduce figure-3 --device cuda --out runs")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "device=cuda: there is no CUDA device here; use cpu or auto" in answer.err
    assert not Path("runs").exists()


def test_a_launcher_may_have_the_device_that_is_not_here(capsys, comparison, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    answer = rmt(capsys, "reproduce figure-3 --device cuda --seconds 0 --out runs --launcher ssh_node={}")
    assert answer.err == "rmt: 2 of 2 cells are not finished after 0 s; the same command goes on\n"
