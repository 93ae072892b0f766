"""A model of a run folder knows how long the segments are that it was trained on."""

import pytest

import rmt
from rmt.errors import ConfigError
from rmt.experiments.run import train
from tests.train.runs import Watcher, tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run."""
    run = tmp_path_factory.mktemp("known") / "run"
    train(tiny(), run, Watcher())
    return run


def test_a_session_of_a_loaded_model_needs_no_segment_length(folder):
    model = rmt.load(folder)
    assert rmt.Session(model).segment_length == model.segment_length == 2
    assert rmt.Session(model, segment_length=5).segment_length == 5
    assert rmt.load(folder / "checkpoints" / "step_12").segment_length == 2


def test_without_a_whole_record_the_length_has_to_be_named(folder):
    (folder / "task.json").write_text("{")
    with pytest.raises(ConfigError, match="segment_length is missing"):
        rmt.Session(rmt.load(folder))
