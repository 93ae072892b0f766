"""Attention with relative positions in one kernel is what its parts are one after the other."""

import pytest
import torch
from torch import Tensor

from rmt.core.spans import Spans
from rmt.gpu import naive
from rmt.gpu.heads import RelativeGradients, RelativeHeads
from rmt.gpu.kernels import short_attention as kernels
from tests.gpu.cases import (
    BATCH,
    DOUBLE,
    HEADS,
    PRECISIONS,
    SEEDS,
    SMALL,
    Case,
    assert_same,
    numbers,
    poison,
)

LONGER = [
    Case(Spans(0, 4, 50, 4), width=41),
    Case(Spans(20, 4, 30, 4), width=64),
    Case(Spans(30, 4, 20, 4), last=4),
]
FITTING = [pytest.param(case, id=str(case)) for case in SMALL]
FITTING += [pytest.param(case, id=str(case), marks=pytest.mark.slow) for case in LONGER]


def relative_heads(case: Case, dtype: torch.dtype) -> RelativeHeads:
    heads = case.heads(dtype, biased=False)
    biases = numbers(torch.promote_types(dtype, torch.float32), 2, SEEDS, HEADS, case.width)
    return RelativeHeads(heads, biases, numbers(dtype, HEADS * SEEDS, case.columns, case.width))


def attended(module, relative: RelativeHeads) -> tuple[Tensor, ...]:
    """Output, lse, all gradients, and the product of the distances' factors."""
    output = poison(relative.heads.query.contiguous())
    lse = module.short_attention(relative, output)
    torch.manual_seed(1)
    to_output = numbers(output.dtype, *output.shape)
    to_biases = relative.biases.new_ones(SEEDS, BATCH, 2, HEADS, output.shape[-1])  # it is added to
    gradients = RelativeGradients(*map(poison, relative.heads[:3]), to_biases)
    to_scores, position = module.short_attention_gradient(relative, to_output, lse, gradients)
    return output, lse, *gradients, to_scores.mT.double() @ position.double()


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_twin_has_the_gradient_that_autograd_finds(case: Case) -> None:
    relative = relative_heads(case, DOUBLE)
    heads, scale = relative.heads, relative.heads.scale
    leaves = [part.detach().requires_grad_() for part in (*heads[:3], relative.biases, relative.distances)]
    query, key, value, biases, distances = leaves
    content, position = (query + bias.repeat_interleave(BATCH, 0)[:, None] for bias in biases)
    scores = torch.einsum("nthe,nkhe->nhtk", content, key) * scale
    by_seed = position.unflatten(0, (SEEDS, BATCH))
    apart = torch.einsum("sbthe,hswe->sbhtw", by_seed, distances.unflatten(0, (HEADS, SEEDS)))
    scores = scores + case.aligned(apart.flatten(0, 1)) * scale
    p = torch.where(heads.seen.mask(), scores, -torch.inf).softmax(-1)
    expected = torch.einsum("nhtk,nkhe->nthe", p, value)
    output, _, *gradients, to_biases, to_distances = attended(naive, relative)
    torch.manual_seed(1)
    *others, of_biases, of_distances = torch.autograd.grad(expected, leaves, numbers(DOUBLE, *output.shape))
    results = output, *gradients, to_biases.sum(1) - BATCH, to_distances
    wanted = expected, *others, of_biases.transpose(0, 1), of_distances
    for result, other in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, other, rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@PRECISIONS
@pytest.mark.parametrize("case", FITTING)
def test_the_kernels_are_their_twins(case: Case, dtype: torch.dtype) -> None:
    assert kernels.fits(case.keys, case.columns, case.width)
    relative = relative_heads(case, dtype)
    assert_same(attended(kernels, relative), attended(naive, relative), dtype)


def test_a_tile_is_no_longer_than_the_table_says_nor_larger() -> None:
    assert kernels.fits(keys=64, columns=128, width=64)
    assert kernels.fits(keys=24, columns=56, width=128)
    assert not kernels.fits(keys=64, columns=128, width=65)
    assert not kernels.fits(keys=65, columns=128, width=16)
    assert not kernels.fits(keys=64, columns=129, width=16)
