"""`rmt runs`: readable at 80 columns, filtered, sorted, compared."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rmt.cli.main import main
from tests.cli.command import TRAIN, rmt, varied
from tests.documents.made_results import LANGUAGE


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert main(varied(f"{TRAIN} --out {folder} --quiet")) == 0
    return folder


@pytest.fixture
def sweep(trained, tmp_path, monkeypatch):
    """Runs that differ in memory, rate and seed, and in what came of them."""
    monkeypatch.chdir(tmp_path)
    for number, (memory, lr) in enumerate([(2, 0.001), (4, 0.001), (16, 0.01)]):
        run = Path("sweep") / f"a-rather-long-name-of-a-run-number-{number}"
        shutil.copytree(trained, run)
        settings = yaml.safe_load((run / "config.yaml").read_text())
        del settings["sha256"]
        settings["model"]["memory"]["size"], settings["optimizer"]["lr"] = memory, lr
        settings["seed"] = number
        (run / "config.yaml").write_text(yaml.safe_dump(settings))
        result = json.loads((run / "result.json").read_text())
        del result["sha256"]
        (run / "result.json").write_text(json.dumps(result | {"value": [0.5, 0.25, 0.75][number]}))
    return Path("sweep")


def numbers(out: str) -> list[int]:
    return [int(json.loads(line)["run"][-1]) for line in out.splitlines()]


def test_a_table_fits_80_columns_says_what_is_shared_and_has_columns_for_what_differs(capsys, sweep):
    code, out, err = rmt(capsys, "runs sweep")
    assert (code, err) == (0, "")
    shared, heading, *rows = out.splitlines()
    assert shared.startswith("all: task tests.train.runs:Echo, length 3, segments 3, model rmt, ")
    assert heading.split() == ["run", "memory", "lr", "seed", "steps", "accuracy"]
    assert rows[2].split()[1:] == ["16", "0.01", "2", "4", "0.7500"]
    assert max(map(len, [heading, *rows])) <= 80


def test_settings_that_do_not_fit_are_named_below(capsys, sweep, monkeypatch):
    monkeypatch.setattr("rmt.cli.runs.WIDEST", 66)
    _, *rest = rmt(capsys, "runs sweep").out.splitlines()
    assert "also different: seed (rmt runs --compare shows how)" in rest
    assert max(map(len, rest)) <= 66


def test_names_stay_whole_where_they_fit_beside_the_results(capsys, sweep, monkeypatch):
    monkeypatch.setattr("rmt.cli.runs.WIDEST", 86)
    out = rmt(capsys, "runs sweep").out
    assert "sweep/a-rather-long-name-of-a-run-number-1  4       0.001  1         4    0.2500" in out


def test_settings_of_how_a_run_is_watched_are_no_columns(capsys, sweep):
    path = sweep / "a-rather-long-name-of-a-run-number-2" / "config.yaml"
    settings = yaml.safe_load(path.read_text())
    settings["train"]["log_every"] += 1
    path.write_text(yaml.safe_dump(settings))
    out = rmt(capsys, "runs sweep").out
    assert out.splitlines()[1].split() == ["run", "memory", "lr", "seed", "steps", "accuracy"]
    assert "also different: train.log_every (rmt runs --compare shows how)" in out


def test_runs_are_compared_setting_by_setting(capsys, sweep):
    out = rmt(capsys, "runs sweep --compare").out
    first, second, third = (sweep / f"a-rather-long-name-of-a-run-number-{number}" for number in range(3))
    assert [line.split() for line in out.splitlines()] == [
        ["setting", "value", "runs"],
        ["memory", "2", str(first)],
        ["4", str(second)],
        ["16", str(third)],
        ["lr", "0.01", str(third)],
        ["0.001", "the", "other", "2"],
    ]
    alone = rmt(capsys, f"runs {first} --compare").out
    assert alone == "the runs differ in nothing but their seeds and machines\n"


def test_texts_of_one_name_in_two_folders_are_told_apart_by_their_whole_paths(capsys, sweep):
    for number, text in enumerate(["first/book.txt", "second/book.txt", "second/book.txt"]):
        file = sweep / f"a-rather-long-name-of-a-run-number-{number}" / "config.yaml"
        settings = yaml.safe_load(file.read_text())
        settings["task"] |= {"name": "text", "data": text}
        file.write_text(yaml.safe_dump(settings))
    out = rmt(capsys, "runs sweep --compare").out
    assert "first/book.txt" in out
    assert "second/book.txt" in out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--where memory=16", [2]),
        ("--where optimizer.lr=0.001", [0, 1]),
        ("--where lr=0.001 --where memory=4", [1]),
        ("--where seed=1 --where model=rmt", [1]),
        ("--where memory=3", []),
        ("--sort value", [1, 0, 2]),
        ("--sort value --reverse", [2, 0, 1]),
        ("--sort accuracy", [1, 0, 2]),
        ("--where accuracy=0.25", [1]),
        ("--sort memory", [0, 1, 2]),
        ("--sort optimizer.lr --reverse", [2, 0, 1]),
    ],
)
def test_runs_are_filtered_and_sorted_by_columns_and_settings(capsys, sweep, words, expected):
    assert numbers(rmt(capsys, f"runs sweep --json {words}").out) == expected


def test_no_run_like_that_is_said(capsys, sweep):
    assert rmt(capsys, "runs sweep --where memory=3").out == "no run is like that\n"


def test_a_name_that_no_run_has_is_one_line(capsys, sweep):
    for words in ("--where colour=red", "--sort colour"):
        code, out, err = rmt(capsys, f"runs sweep {words}")
        assert (code, out) == (2, "")
        assert err.startswith(
            "rmt: 'colour' is no column, setting or score of these runs; the columns are: run, "
        )


def test_a_page_in_a_run_folder_is_named(capsys, sweep):
    run = sweep / "a-rather-long-name-of-a-run-number-1"
    (run / "explorer.html").write_text("a page")
    assert rmt(capsys, "runs sweep").out.splitlines()[-1] == f"explorer: {run}/explorer.html"
    pages = [json.loads(line)["explorer"] for line in rmt(capsys, "runs sweep --json").out.splitlines()]
    assert pages == [None, f"{run}/explorer.html", None]


def test_runs_that_share_nothing_have_no_line_of_it(capsys):
    release = Path(__file__).parents[1] / "release" / "17fc2a8"
    shutil.copytree(release / "copy-rmt", "runs/copy")
    shutil.copytree(release / "text-transformer_xl_rmt", "runs/text")
    settings = yaml.safe_load(Path("runs/text/config.yaml").read_text())
    settings["task"] |= {"segments": 9}
    settings |= {"recipe": "paper", "seed": 7}
    settings["bptt"]["depth"] = 1
    settings["model"]["memory"]["size"] = 5
    settings.pop("sha256", None)
    Path("runs/text/config.yaml").write_text(yaml.safe_dump(settings))
    answer = rmt(capsys, "runs")
    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0].split()[0] == "run"


def test_settings_that_only_one_kind_of_run_has_are_no_differences(capsys, sweep):
    decoder = sweep / "decoder"
    decoder.mkdir()
    (decoder / "config.yaml").write_text(yaml.safe_dump(LANGUAGE["config"]))
    (decoder / "result.json").write_text(json.dumps(LANGUAGE))
    answer = rmt(capsys, "runs sweep --compare")
    assert answer.code == 0, answer.err
    names = {line.split()[0] for line in answer.out.splitlines()[1:] if not line.startswith(" ")}
    assert {"memory", "lr", "model", "backbone"} <= names
    assert not {"lora", "optimizer.beta1", "deterministic", "model.layers"} & names


def test_finished_runs_of_all_kinds_are_listed_without_torch(sweep):
    decoder = sweep / "decoder"
    decoder.mkdir()
    (decoder / "config.yaml").write_text(yaml.safe_dump(LANGUAGE["config"]))
    (decoder / "result.json").write_text(json.dumps(LANGUAGE))
    code = (
        "import sys; from rmt.cli.main import main; code = main(['runs', 'sweep']); "
        "assert 'rmt.experiments.listed' in sys.modules; print('torch' in sys.modules); sys.exit(code)"
    )
    places = os.pathsep.join(map(str, (Path(__file__).parents[2] / "src", Path(__file__).parents[2])))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "sweep/decoder" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
