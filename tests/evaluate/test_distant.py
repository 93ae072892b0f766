"""Answers to distant questions, read in blocks, are those of the whole examples at once."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rmt import SegmentModel, presets
from rmt.errors import ConfigError
from rmt.evaluate.distant import blocks, distant_accuracy
from rmt.evaluate.evaluate import evaluate
from rmt.tasks import make_task
from tests.tasks.stories import write_data


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl", "baseline"])
def test_distant_accuracy_is_that_of_whole_examples(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rmt.evaluate.distant.BLOCK", 2)
    task = make_task("memory-qa", data=str(write_data(tmp_path)), length=70, buckets=4)
    torch.manual_seed(3)
    size = {"rmt": {"memory": 2}, "transformer_xl": {"cache": 5}, "baseline": {}}[kind]
    config = presets.preset(
        kind, vocabulary=task.vocabulary, layers=1, width=8, heads=1, head_width=4, **size
    )
    model = SegmentModel(config)
    with torch.no_grad():  # so that the answers, and only these, are likely
        model.embedding.bias[[story.answer for story in task.library.stories["test"]]] = 5.0
    expected = evaluate(model, task, 16, samples=40, thorough=False)["accuracy"]
    assert 0 < expected < 1
    assert distant_accuracy(model, task, 16, samples=40, batch=7) == pytest.approx(expected)


def test_pieces_become_blocks_of_one_size():
    pieces = (np.arange(size) for size in (0, 3, 7, 1, 1))
    assert [block.tolist() for block in blocks(pieces, 5)] == [[0, 1, 2, 0, 1], [2, 3, 4, 5, 6], [0, 0]]


def test_more_samples_than_there_are_are_refused(tmp_path):
    task = make_task("memory-qa", data=str(write_data(tmp_path)), length=70)
    with pytest.raises(ConfigError, match="samples=1001 must be 1 to 1000"):
        distant_accuracy(SegmentModel(presets.baseline(vocabulary=4)), task, 16, samples=1001)
