"""`rmt evaluate`, `rmt runs`, `rmt report` and `rmt data`."""

import json
import shutil

import pytest

from rmt.cli.main import main
from rmt.tasks import task_names
from rmt.train.checkpoint import Checkpoints, load_parts
from tests.cli.command import TRAIN, rmt, varied


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """Two runs, of 4 and 12 steps."""
    folder = tmp_path_factory.mktemp("trained")
    assert main(f"{TRAIN} --out {folder}/a --quiet".split()) == 0
    without_memory = TRAIN.replace(" --memory 2", "")
    assert main(varied(f"{without_memory} --out {folder}/b --quiet --steps 12 --model baseline")) == 0
    return folder


def test_evaluate_measures_what_training_measured(capsys, trained):
    code, out, err = rmt(capsys, f"evaluate {trained}/a --json --device cpu")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads((trained / "a" / "result.json").read_text())["metrics"]


def test_evaluate_prints_a_line_per_metric(capsys, trained):
    out = rmt(capsys, f"evaluate {trained}/a --split valid --samples 5 --batch 2 --device cpu").out
    found = dict(line.split() for line in out.splitlines())
    assert set(found) == {
        "accuracy",
        "sequence_accuracy",
        "teacher_forced_accuracy",
        "original_accuracy",
        "loss",
        "samples",
    }
    assert found["samples"] == "5"


def test_evaluate_takes_a_single_checkpoint_and_other_segments(capsys, trained):
    whole, cut = (
        json.loads(rmt(capsys, f"evaluate {trained}/a/checkpoints/step_4 --json {options}").out)
        for options in ("--segments 1", "--segments 9")
    )
    assert whole["samples"] == cut["samples"] == 12
    assert whole["loss"] != cut["loss"]


@pytest.fixture
def unfinished(trained, tmp_path):
    """A run of 12 steps that ended behind its eighth, whose sixth was the best so far."""
    folder = tmp_path / "unfinished"
    shutil.copytree(trained / "b", folder)
    (folder / "result.json").unlink()
    for step in (6, 8):
        Checkpoints(folder).save(step, load_parts(trained / "b/checkpoints/step_12"), best=step == 6)
    return folder


@pytest.mark.parametrize("command", ["evaluate", "attention", "stream", "generate", "export"])
def test_weights_of_an_unfinished_run_are_used_with_one_line_that_says_how_far_it_came(
    capsys, unfinished, tmp_path, command
):
    (tmp_path / "text").write_text("0 1 0 1")
    words = {
        "evaluate": "--device cpu --samples 4 --quiet",
        "attention": "--quiet",
        "stream": f"{tmp_path / 'text'} --device cpu --quiet",
        "generate": "--prompt 0 --tokens 1 --device cpu",
        "export": f"-o {tmp_path / 'model.pt2'}",
    }
    code, _, err = rmt(capsys, f"{command} {unfinished} {words[command]}")
    expected = f"rmt: run '{unfinished}' is not finished: its weights are from step 6 of 12\n"
    assert (code, err) == (0, expected)


def test_a_checkpoint_that_is_named_is_used_without_a_word(capsys, unfinished):
    code, _, err = rmt(capsys, f"evaluate {unfinished}/checkpoints/step_8 --samples 4 --device cpu --quiet")
    assert (code, err) == (0, "")


def test_runs_are_listed_with_their_results(capsys, trained):
    code, out, err = rmt(capsys, f"runs {trained} --json")
    assert (code, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert (first["run"], second["run"]) == (f"{trained}/a", f"{trained}/b")
    assert (first["model"], first["memory"], first["steps"], first["segments"]) == ("rmt", 2, 4, 3)
    assert (second["model"], second["memory"], second["steps"]) == ("baseline", 0, 12)
    assert first["value"] == json.loads((trained / "a" / "result.json").read_text())["value"]


def test_runs_are_a_table_with_a_line_per_run(capsys, trained):
    shared, heading, *rows = rmt(capsys, f"runs {trained}").out.splitlines()
    assert shared == (
        "all: task tests.train.runs:Echo, length 3, segments 3, cache 0, depth full, recipe modern-2, seed 0"
    )
    assert heading.split()[:3] == ["run", "model", "memory"]
    rows = [row for row in rows if row.startswith(str(trained))]
    assert [row.split()[0].rsplit("/", 1)[-1] for row in rows] == ["a", "b"]


@pytest.mark.parametrize(("sort", "expected"), [("run", [4, 12]), ("steps", [4, 12]), ("task", [4, 12])])
def test_runs_are_sorted_by_number_where_it_is_one(capsys, trained, sort, expected):
    out = rmt(capsys, f"runs {trained} --sort {sort} --json").out
    assert [json.loads(line)["steps"] for line in out.splitlines()] == expected


def test_runs_that_are_unfinished_come_last_and_say_so(capsys, trained, tmp_path):
    for name in ("c", "d"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text((trained / "a" / "config.yaml").read_text())
    (tmp_path / "d" / "result.json").write_text((trained / "a" / "result.json").read_text())
    rows = rmt(capsys, f"runs {tmp_path} --sort value").out.splitlines()[2:]
    assert [line.split()[-1] == "unfinished" for line in rows] == [False, True]
    assert [line.split()[0][-2:] for line in rows] == ["/d", "/c"]


def test_a_folder_without_runs_says_so(capsys, tmp_path):
    assert rmt(capsys, f"runs {tmp_path}") == (0, "no runs here\n", "")


def test_the_report_has_a_row_per_setting(capsys, trained):
    code, out, err = rmt(capsys, f"report {trained}")
    assert (code, err) == (0, "")
    heading, rule, *rows = out.splitlines()
    assert heading.startswith("| task | segments | model | memory | cache |")
    assert set(rule) == {"|", "-", " "}
    assert [row.split(" | ")[2] for row in rows] == ["rmt", "baseline"]


def test_data_list_has_a_line_per_task(capsys):
    code, out, err = rmt(capsys, "data list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == task_names()
    assert all(len(line.split()) > 3 for line in out.splitlines())


def test_data_show_marks_segments_and_what_is_under_the_loss(capsys):
    code, out, err = rmt(capsys, "data show copy --length 2 --segments 3 --examples 2")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("copy (version 1): ")
    assert lines[1:3] == ["", "example 1"]
    source = " ".join(lines[3].split()[3:])
    assert [" ".join(line.split()) for line in lines[3:8]] == [
        f"segment 1 in {source}",
        f"segment 2 in | {source[0]}",
        f"loss {source}",
        f"segment 3 in {source[2]} {source[0]}",
        f"loss {source}",
    ]
    assert out.count("example ") == 2


def test_data_show_takes_the_data_of_a_text_by_the_name_they_have_in_training(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("it was the best of times\n" * 200)
    code, out, _ = rmt(capsys, "data show text --data book.txt --examples 1")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[3::2]] == [
        ["segment", number, "in"] for number in "123"
    ]
    code, _, err = rmt(capsys, "data show text --data book.txt --segments 2")
    assert (code, err) == (2, "rmt: segments=2 has no effect on task 'text'; leave it out\n")
    code, _, err = rmt(capsys, "data show text --data book.txt --task.options data=book.txt")
    assert (code, err) == (2, "rmt: data=book.txt is given twice; leave it out of --task.options\n")


def test_data_show_takes_options_and_splits(capsys):
    out = rmt(capsys, "data show retrieval --task.options pairs=2 --split train --examples 1").out
    assert "Sequences of 6 tokens" in out
    assert "sequence  in" in out
    assert out != rmt(capsys, "data show retrieval --task.options pairs=2 --split valid --examples 1").out
