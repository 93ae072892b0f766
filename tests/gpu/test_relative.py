"""Queries with biases, and scores moved from distances to keys: kernels are their twins, twins are right."""

import pytest
import torch
from torch import Tensor

from rmt.gpu import naive
from rmt.gpu.kernels import relative as kernels
from tests.gpu.cases import CASES, DOUBLE, HEADS, SEEDS, SMALL, Case, assert_same, numbers

BLOCKS = 3  # programs that share rows


def biased(module, case: Case, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Queries with biases, and their gradients; sums of blocks, which begin with one."""
    query = case.heads(dtype, biased=False).query
    biases = numbers(torch.promote_types(dtype, torch.float32), 2, SEEDS, HEADS, case.width)
    content, position = module.biased_queries(query, biases, 0.3)
    to_query, to_position = numbers(dtype, *query.shape), numbers(dtype, *position.shape)
    sums = torch.ones_like(biases[0, :, None, None]).repeat(1, BLOCKS, 2, 1, 1)
    rows = to_query.repeat(1, 2, 1, 1)[:, : case.queries]  # strides that are not those of the rows alone
    module.biased_queries_gradient(rows, to_position, sums, 0.3)
    return content, position, rows, sums.sum(1)


def moved(module, case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scores of distances at their keys, and the gradient's way back."""
    torch.manual_seed(0)
    seen, segments = case.seen(), 4
    scores = module.aligned(numbers(dtype, HEADS, segments, case.queries, case.columns), seen)
    visible = torch.nn.functional.pad(naive.heads_first(seen), (0, scores.shape[-1] - case.keys))
    to_aligned = numbers(dtype, *scores.shape).masked_fill(~visible, torch.nan)  # nobody has written there
    return scores, module.aligned_gradient(to_aligned, case.columns, seen)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_the_twin_of_biased_queries_has_the_gradient_that_autograd_finds(case: Case) -> None:
    content, position, to_query, sums = biased(naive, case, DOUBLE)
    query = case.heads(DOUBLE, biased=False).query.detach().requires_grad_()
    biases = numbers(DOUBLE, 2, SEEDS, HEADS, case.width).requires_grad_()
    by_segment = biases.repeat_interleave(2, 1)[:, :, None]  # (2, N, 1, H, E)
    expected = query + by_segment[0], ((query + by_segment[1]) * 0.3).permute(2, 0, 1, 3)
    torch.testing.assert_close((content, position), expected, rtol=1e-12, atol=1e-12)
    gradients = numbers(DOUBLE, *query.shape), numbers(DOUBLE, *position.shape)
    to_rows, to_biases = torch.autograd.grad(expected, (query, biases), gradients)
    torch.testing.assert_close(to_query, to_rows, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(sums - BLOCKS, to_biases.transpose(0, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_scores_are_aligned_as_the_plain_model_shifts_them(case: Case) -> None:
    result, to_scores = moved(naive, case, DOUBLE)
    torch.manual_seed(0)
    scores = numbers(DOUBLE, HEADS, 4, case.queries, case.columns).requires_grad_()
    visible = naive.heads_first(case.seen())
    expected = torch.where(visible, case.aligned(scores), 0)
    torch.testing.assert_close(result[..., : case.keys], expected, rtol=0, atol=0)
    assert not result[..., case.keys :].any()
    gradient = numbers(DOUBLE, *result.shape)[..., : case.keys]
    (other,) = torch.autograd.grad(expected, scores, gradient)
    torch.testing.assert_close(to_scores, other, rtol=0, atol=0)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_biased_queries_are_their_twins(case: Case, dtype: torch.dtype) -> None:
    assert_same(biased(kernels, case, dtype), biased(naive, case, dtype), dtype)


@pytest.mark.covering
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_aligned_scores_are_their_twins(case: Case, dtype: torch.dtype) -> None:
    for result, expected in zip(moved(kernels, case, dtype), moved(naive, case, dtype), strict=True):
        assert torch.equal(result, expected)
