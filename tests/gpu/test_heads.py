"""What queries see is written as intervals, and nothing is lost by that."""

import pytest
import torch

from rmt.core.spans import Spans
from rmt.gpu.heads import seen_of
from rmt.gpu.kernels.strided import strided
from rmt.gpu.tiles import TILES
from tests.gpus import without_waiting

SPANS = [
    Spans(cache, read, tokens, write)
    for cache in (0, 3)
    for read in (0, 2)
    for tokens in (1, 4)
    for write in (0, 2)
]


@pytest.mark.parametrize("sees", [False, True], ids=["", "memory-sees-cache"])
@pytest.mark.parametrize(
    ("spans", "first"), [(spans, first) for spans in SPANS for first in (0, 1) if first < spans.queries]
)
def test_intervals_are_the_mask_of_every_segment(spans, first, sees):
    mask = spans.mask(sees, first)
    seen = seen_of(mask)
    assert torch.equal(seen.mask(), mask)
    assert {bound.dtype for bound in seen[:6]} == {torch.int32}
    if spans.cache == 0:
        assert torch.equal(seen_of(mask, cache=False).mask(), mask)


@pytest.mark.parametrize("sees", [False, True], ids=["", "memory-sees-cache"])
@pytest.mark.parametrize("spans", [spans for spans in SPANS if spans.cache])
def test_missing_keys_are_those_of_a_cache_that_is_not_full(spans, sees):
    cached = torch.arange(spans.cache + 1)
    seen = seen_of(spans.mask(sees))._replace(missing=(spans.cache - cached).int())
    assert torch.equal(seen.mask(), spans.axis(cached, None, sees).mask)


@pytest.mark.parametrize("last", [60, 41, 3])
@pytest.mark.parametrize("sees", [False, True], ids=["", "memory-sees-cache"])
def test_tiles_leave_out_exactly_the_ends_that_nobody_sees(monkeypatch, sees, last):
    monkeypatch.setitem(TILES, "attention", {**TILES["attention"], "queries": 16})
    mask = Spans(40, 6, 48, 6).mask(sees)[-last:]
    seen = seen_of(mask)
    for queries, *bounds in zip(tiles_from_behind(mask), seen.key_starts, seen.key_stops, strict=True):
        keys = queries.any(0).nonzero()[:, 0]
        assert bounds == [keys.min(), keys.max() + 1]
    for keys, *bounds in zip(mask.split(16, dim=1), seen.query_starts, seen.query_stops, strict=True):
        queries = keys.any(1).nonzero()[:, 0]
        assert bounds == ([queries.min(), queries.max() + 1] if len(queries) else [last, 0])


def tiles_from_behind(mask):
    return [tile.flip(0) for tile in mask.flip(0).split(16)][::-1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_host_does_not_wait_for_a_mask():
    mask = Spans(3, 2, 4, 2).mask(device=torch.device("cuda"))
    with without_waiting():
        seen = seen_of(mask)
    assert torch.equal(seen.mask(), mask)


def test_kernels_refuse_columns_that_are_apart():
    with pytest.raises(ValueError, match="columns of stride 3"):
        strided(torch.zeros(2, 2, 5, 3).transpose(2, 3))
