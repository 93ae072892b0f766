"""What follows from the shape of a segment alone."""

import pytest
import torch

from rmt.core.spans import Spans
from rmt.gpu.shapes import distances_seen
from tests.gpu.cases import LARGE, SMALL, Case

STEP = 8  # what the number of distances is a multiple of


@pytest.mark.parametrize("case", [*SMALL, *LARGE], ids=str)
def test_distances_are_those_that_a_query_sees_a_key_at(case: Case) -> None:
    """Column w is distance K-1-w, as in the table of the plain model."""
    query = torch.arange(case.keys)[case.keys - case.queries :, None]
    nearest = int((query - torch.arange(case.keys))[case.mask.cpu()].min())  # below zero: behind the query
    needed = case.keys - nearest
    assert needed <= case.columns < needed + STEP
    assert case.columns % STEP == 0


def test_only_keys_of_a_memory_block_lie_behind_their_query() -> None:
    assert distances_seen(Spans(0, 10, 128, 10).mask()) == 160  # of 304 in the plain model's table
    assert distances_seen(Spans(128, 0, 128, 0).mask()) == 256
