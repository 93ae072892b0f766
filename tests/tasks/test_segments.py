"""Sequences are split into segments."""

import pytest
import torch

from rmt.errors import ConfigError
from rmt.tasks.copy import Copy
from rmt.tasks.retrieval import Retrieval
from rmt.tasks.segments import Segment, segment, segment_length


@pytest.fixture
def batch():
    return Retrieval().fresh(3, index=0, seed=0)


@pytest.mark.parametrize(
    ("total", "segments", "length"),
    [(72, 1, 72), (72, 3, 24), (72, 9, 8), (10, 2, 5), (10, 3, 4), (10, 4, 3), (10, 10, 1), (1, 1, 1)],
)
def test_a_segment_is_the_total_over_their_number_rounded_up(total, segments, length):
    assert segment_length(total, segments) == length


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (7, r"segments=7 does not fit 10 tokens \(length 2 gives 5\); nearest: 5, 10$"),
        (6, r"segments=6 does not fit 10 tokens \(length 2 gives 5\); nearest: 5, 10$"),
        (11, r"segments=11 does not fit 10 tokens \(choose 1 to 10\); nearest: 10$"),
        (0, r"segments=0 does not fit 10 tokens \(choose 1 to 10\); nearest: 1$"),
        (-2, r"segments=-2 does not fit 10 tokens \(choose 1 to 10\); nearest: 1$"),
    ],
)
def test_a_number_of_segments_that_does_not_fit_is_an_error_naming_the_nearest(segments, message):
    with pytest.raises(ConfigError, match=message):
        segment_length(10, segments)


@pytest.mark.parametrize("segments", [1, 2, 3, 4, 5, 10])
def test_a_batch_becomes_exactly_as_many_segments_as_asked(batch, segments):
    assert len(segment(batch, segments)) == segments


@pytest.mark.parametrize("segments", [1, 2, 3, 4, 5, 10])
def test_segments_put_together_are_the_batch(batch, segments):
    parts = [piece[:3] for piece in segment(batch, segments)]
    whole = Segment(*(torch.cat(pieces, dim=1) for pieces in zip(*parts, strict=True)))
    assert torch.equal(whole.tokens, batch.tokens)
    assert torch.equal(whole.targets, batch.targets)
    assert torch.equal(whole.loss_mask, batch.loss_mask)


def test_only_the_last_segment_is_ragged(batch):
    assert [piece.tokens.shape for piece in segment(batch, 3)] == [(3, 4), (3, 4), (3, 2)]


def test_with_three_segments_the_input_of_copy_fills_the_first():
    under_loss = [
        bool(piece.loss_mask.any()) for piece in segment(Copy(length=8).fresh(2, index=0, seed=0), 3)
    ]
    assert under_loss == [False, True, True]
