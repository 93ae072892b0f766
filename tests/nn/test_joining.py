"""Rows are joined as torch joins them, in every number format."""

import pytest
import torch

from rmt.nn.joining import cat_rows


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("stacked", [False, True], ids=["alone", "stacked"])
def test_joined_rows_and_their_gradients_are_those_of_torch(dtype: torch.dtype, stacked: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    front = (4, 2) if stacked else (2,)
    parts = [
        torch.randn(*front, rows, 3, generator=generator).to(dtype).requires_grad_() for rows in (2, 5, 0)
    ]
    found = (torch.vmap(cat_rows) if stacked else cat_rows)(*parts)
    expected = torch.cat(parts, dim=-2)
    assert torch.equal(found, expected)
    gradient = torch.randn(expected.shape, generator=generator).to(dtype)
    mine, theirs = (torch.autograd.grad(one, parts, gradient) for one in (found, expected))
    assert all(torch.equal(*pair) for pair in zip(mine, theirs, strict=True))
