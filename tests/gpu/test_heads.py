"""What queries see is written as intervals, and nothing is lost by that."""

import pytest
import torch

from rmt.core.spans import Spans
from rmt.gpu.heads import seen_of
from rmt.gpu.kernels.strided import strided

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
    assert {bound.dtype for bound in seen[:4]} == {torch.int32}


@pytest.mark.parametrize("sees", [False, True], ids=["", "memory-sees-cache"])
@pytest.mark.parametrize("spans", [spans for spans in SPANS if spans.cache])
def test_missing_keys_are_those_of_a_cache_that_is_not_full(spans, sees):
    cached = torch.arange(spans.cache + 1)
    seen = seen_of(spans.mask(sees))._replace(missing=(spans.cache - cached).int())
    assert torch.equal(seen.mask(), spans.axis(cached, None, sees).mask)


@pytest.mark.parametrize("sees", [False, True], ids=["", "memory-sees-cache"])
def test_all_queries_that_see_a_key_lie_between_its_two(sees):
    mask = Spans(3, 2, 4, 2).mask(sees)
    seen = seen_of(mask)
    for key, queries in enumerate(mask.T):
        visible = queries.nonzero()[:, 0].tolist()
        assert (seen.first_query[key], seen.stop_query[key]) == (visible[0], visible[-1] + 1)


def test_a_key_that_no_query_sees_has_none():
    seen = seen_of(torch.tensor([[False, True], [False, True]]))
    assert (seen.first_query.tolist(), seen.stop_query.tolist()) == ([2, 0], [0, 2])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_host_does_not_wait_for_a_mask():
    mask = Spans(3, 2, 4, 2).mask(device=torch.device("cuda"))
    torch.cuda.set_sync_debug_mode("error")
    try:
        seen = seen_of(mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(seen.mask(), mask)


def test_kernels_refuse_columns_that_are_apart():
    with pytest.raises(ValueError, match="columns of stride 3"):
        strided(torch.zeros(2, 2, 5, 3).transpose(2, 3))
