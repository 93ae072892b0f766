"""Who sees whom on [cache ∘ read ∘ tokens ∘ write], drawn as the paper draws it."""

import pytest
import torch
from torch import Tensor

from rmt.core.spans import Spans

SPANS = Spans(cache=2, read=2, tokens=3, write=2)


def table(*rows: str) -> Tensor:
    """A mask as text: o visible, . hidden, spaces between the spans."""
    return torch.tensor([[mark == "o" for mark in row.replace(" ", "")] for row in rows])


MEMORY_BLIND_TO_THE_CACHE = table(
    ".. oo ... ..",
    ".. oo ... ..",
    "oo oo o.. ..",
    "oo oo oo. ..",
    "oo oo ooo ..",
    ".. oo ooo oo",
    ".. oo ooo oo",
)
MEMORY_SEES_THE_CACHE = table(
    "oo oo ... ..",
    "oo oo ... ..",
    "oo oo o.. ..",
    "oo oo oo. ..",
    "oo oo ooo ..",
    "oo oo ooo oo",
    "oo oo ooo oo",
)
MASKS = pytest.mark.parametrize(
    ("memory_sees_cache", "drawn"),
    [
        pytest.param(False, MEMORY_BLIND_TO_THE_CACHE, id="memory-blind-to-the-cache"),
        pytest.param(True, MEMORY_SEES_THE_CACHE, id="memory-sees-the-cache"),
    ],
)


@MASKS
def test_the_mask_is_the_table_of_the_paper(memory_sees_cache, drawn):
    assert torch.equal(SPANS.mask(memory_sees_cache), drawn)


@MASKS
@pytest.mark.parametrize("first", range(7))
def test_the_mask_of_later_queries_is_the_rest_of_the_table(memory_sees_cache, drawn, first):
    assert torch.equal(SPANS.mask(memory_sees_cache, first), drawn[first:])


@MASKS
def test_without_a_write_block_the_mask_is_the_table_without_it(memory_sees_cache, drawn):
    assert torch.equal(SPANS._replace(write=0).mask(memory_sees_cache), drawn[:-2, :-2])


def test_without_memory_and_cache_the_mask_is_causal():
    assert torch.equal(Spans(0, 0, 3, 0).mask(), table("o..", "oo.", "ooo"))


def test_split_gives_each_block_its_own_rows():
    rows = torch.arange(7)[None, :, None]
    read, tokens, write = (block.flatten().tolist() for block in SPANS.split(rows))
    assert (read, tokens, write) == ([0, 1], [2, 3, 4], [5, 6])


def test_cache_rows_that_are_not_filled_yet_are_hidden_row_by_row():
    axis = SPANS.axis(torch.tensor([0, 1, 2]), None, memory_sees_cache=True)
    for row, hidden in enumerate([2, 1, 0]):
        expected = MEMORY_SEES_THE_CACHE.clone()
        expected[:, :hidden] = False
        assert torch.equal(axis.mask[row, 0], expected)
    assert axis.present.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("valid", "positions"),
    [
        pytest.param([True, True, False], [0, 1, 2, 3, 4, 5, 5, 6, 7], id="right-padding"),
        pytest.param([False, True, True], [0, 1, 2, 3, 3, 4, 5, 6, 7], id="left-padding"),
    ],
)
def test_padding_takes_no_place_on_the_axis_and_is_seen_only_by_itself(valid, positions):
    axis = SPANS.axis(torch.tensor([2]), torch.tensor([valid]), memory_sees_cache=True)
    padding = 4 + valid.index(False)
    assert axis.positions.tolist() == [positions]
    assert axis.mask[0, 0, :, padding].nonzero().flatten().tolist() == [padding - 2]
