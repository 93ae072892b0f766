"""A text run that was stopped anywhere goes on in the middle of its lanes, bit by bit the same."""

import random
from pathlib import Path

import pytest

from rmt.cli.main import main
from rmt.errors import CheckpointError
from tests.covering import quick
from tests.train.runs import metrics, run
from tests.train.test_resume import assert_same_run, kill_at
from tests.train.texts import MODELS, text, write_corpus

STEPS = 32
TRAIN = (
    "train text --data {data} --model transformer_xl_rmt --memory 2 --cache 5 --batch 3 --steps {steps} "
    "--device cpu --task.segment_length 4 --task.reset document --schedule {schedule} --depth 2 "
    "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8 "
    "--train.log_every 1 --train.save_every 7 --train.evaluate_every 20"
)
# name: (model, BPTT, other settings); checkpoints are of steps 3, 4, 6, 8, 9 and 12
RUNS = {
    "chunked": ("rmt", {"schedule": "chunked", "depth": 2}, {}),
    "sliding": ("rmt", {"schedule": "sliding", "depth": 2}, {"optimizer": {"name": "adam"}}),
    "latest": ("transformer_xl_rmt", {"schedule": "sliding", "depth": 2, "replay_from": "latest"}, {}),
    "both": ("transformer_xl_rmt", {"schedule": "sliding", "depth": 2}, {"task": {"reset": "document"}}),
    "both-chunked": ("transformer_xl_rmt", {"schedule": "chunked", "depth": 2}, {"task": {"reset": 2}}),
    "cache": ("transformer_xl", {"schedule": "chunked", "depth": 0}, {"train": {"accumulate": 3}}),
    "baseline": ("baseline", {"schedule": "chunked", "depth": 0}, {}),
    "double": ("transformer_xl_rmt", {"schedule": "sliding", "depth": 1}, {"precision": "64-true"}),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("setting", quick(RUNS, "sliding", "latest", "both-chunked", "cache"))
def test_a_run_with_dropout_stopped_anywhere_ends_with_the_bits_of_an_uninterrupted_one(
    tmp_path, data, setting
):
    model, bptt, settings = setting
    config = text(data, bptt=bptt, **{**settings, "model": {**MODELS[model], "dropout": 0.3}})
    run(config, tmp_path / "whole")
    for stop in (1, 5, 11):  # without a checkpoint, then behind steps 4 and 9
        run(config, tmp_path / "stopped", stop=stop)
    run(config, tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "whole", 12)


@pytest.mark.parametrize("schedule", [pytest.param("chunked", marks=pytest.mark.slow), "sliding"])
def test_a_run_killed_at_a_random_step_ends_with_the_bits_of_an_uninterrupted_one(
    tmp_path, capsys, data, schedule
):
    command = TRAIN.format(data=data, steps=STEPS, schedule=schedule).split()
    step = random.randrange(16, STEPS - 10)  # the first checkpoint is surely there
    kill_at(step, [*command, "--out", str(tmp_path / "killed")], tmp_path / "killed")
    assert not (tmp_path / "killed" / "result.json").exists()
    assert main([*command, "--out", str(tmp_path / "killed")]) == 0
    assert "transformer_xl_rmt  resuming at step" in capsys.readouterr().out
    assert main([*command, "--out", str(tmp_path / "whole")]) == 0
    assert_same_run(tmp_path / "killed", tmp_path / "whole", STEPS)


@pytest.mark.parametrize("setting", quick(RUNS, "cache"))
def test_a_run_that_was_stopped_behind_its_last_step_only_has_to_be_tested(tmp_path, data, setting):
    model, bptt, settings = setting
    config = text(data, bptt=bptt, **{**settings, "model": MODELS[model]})
    result, _ = run(config, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    before = metrics(tmp_path / "run")
    again, watcher = run(config, tmp_path / "run")
    assert watcher.messages == ["resuming at step 12"]
    assert again["metrics"] == result["metrics"]
    assert metrics(tmp_path / "run") == before


def test_a_run_does_not_go_on_with_another_text(tmp_path):
    config = text(write_corpus(tmp_path / "corpus", seed=0))
    run(config, tmp_path / "run", stop=7)
    write_corpus(tmp_path / "corpus", seed=1)
    with pytest.raises(CheckpointError, match="prepared' is not the corpus this run was trained on"):
        run(config, tmp_path / "run")
    write_corpus(tmp_path / "corpus", seed=0)
    _, watcher = run(config, tmp_path / "run")
    assert watcher.messages == ["resuming at step 6", "32-true on the CPU"]
