"""Attention in tiles is plain attention, whose gradient is the one that autograd finds."""

import pytest
import torch
from torch import Tensor

from rmt.core.spans import Spans
from rmt.gpu import naive
from rmt.gpu.heads import HeadGradients, Heads
from rmt.gpu.kernels import attention as kernels
from tests.gpu.cases import CASES, DEVICE, DOUBLE, PRECISIONS, SMALL, Case, assert_same, numbers, poison

BIASED = pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])


def attended(module, heads: Heads) -> tuple[Tensor, ...]:
    """Output, lse and all gradients, each written where nothing was before; of a bias where keys are seen."""
    output = poison(heads.query.contiguous())
    lse = module.attention(heads, output)
    torch.manual_seed(1)
    to_output = numbers(output.dtype, *output.shape)
    to_bias = None if heads.bias is None else poison(heads.bias)
    gradients = HeadGradients(*map(poison, heads[:3]), to_bias)
    module.attention_gradient(heads, to_output, output, lse, gradients)
    if to_bias is None:
        return output, lse, *gradients[:3]
    visible = heads.seen.mask()
    keys = to_bias[..., : visible.shape[-1]]
    return output, lse, *gradients[:3], torch.where(visible, keys, 0)


@BIASED
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_twin_has_the_gradient_that_autograd_finds(case: Case, biased: bool) -> None:
    heads = case.heads(DOUBLE, biased)
    leaves = [part.detach().requires_grad_() for part in heads[:4] if part is not None]
    query, key, value, *bias = leaves
    scores = torch.einsum("nthe,nkhe->nhtk", query, key) * heads.scale
    scores = scores + bias[0][..., : case.keys] if biased else scores
    p = torch.where(heads.seen.mask(), scores, -torch.inf).softmax(-1)
    expected = torch.einsum("nhtk,nkhe->nthe", p, value)
    output, lse, *gradients = attended(naive, heads)
    torch.manual_seed(1)
    found = torch.autograd.grad(expected, leaves, numbers(DOUBLE, *expected.shape))
    assert lse.dtype == DOUBLE
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
    for gradient, other in zip(gradients, found, strict=True):
        torch.testing.assert_close(gradient, other[..., : gradient.shape[-1]], rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@PRECISIONS
@BIASED
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_are_their_twins(case: Case, biased: bool, dtype: torch.dtype) -> None:
    heads = case.heads(dtype, biased)
    results = attended(kernels, heads)
    assert results[1].dtype == torch.float32
    assert_same(results, attended(naive, heads), dtype)


@pytest.mark.parametrize("case", SMALL[3:], ids=str)
def test_a_bias_need_not_be_written_where_no_key_is_seen(case: Case) -> None:
    heads = case.heads(torch.float32, biased=True)
    assert heads.bias is not None
    expected = attended(kernels, heads)
    visible = torch.nn.functional.pad(heads.seen.mask(), (0, 3)).expand(heads.bias.shape)
    heads.bias.masked_fill_(~visible, torch.nan)
    for result, other in zip(attended(kernels, heads), expected, strict=True):
        assert torch.equal(result, other)


def test_tiles_of_keys_that_nobody_sees_are_not_loaded() -> None:
    heads = Case(Spans(70, 0, 3, 3), last=3).heads(torch.float32, biased=False)
    heads.key[:, :64] = torch.nan  # memory does not see the cache
    heads.value[:, :64] = torch.nan
    output, _, to_query, *_ = attended(kernels, heads)
    assert output.isfinite().all()
    assert to_query.isfinite().all()


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
def test_a_recording_follows_a_cache_that_fills_up() -> None:
    heads = Case(Spans(70, 5, 60, 5)).heads(torch.bfloat16, biased=True)
    attended(kernels, heads)  # compiles
    graph = torch.cuda.CUDAGraph()
    output = torch.empty_like(heads.query)
    with torch.cuda.graph(graph):
        kernels.attention(heads, output)
    assert heads.seen.missing is not None
    for missing in (70, 33, 0):
        heads.seen.missing.fill_(missing)
        graph.replay()
        expected = torch.empty_like(output)
        kernels.attention(heads, expected)
        assert torch.equal(output, expected)
