"""Rotary positions in a kernel are those of the plain model, and can be taken back."""

import pytest
import torch
from torch import Tensor

from rmt.gpu import naive
from rmt.gpu.kernels import rotary as kernels
from rmt.nn.positions import frequencies, turn
from tests.gpu.cases import DEVICE, DOUBLE, assert_same, numbers

# segments, rows, heads, head width: less than a tile, more than one, a half that is no power of two
SHAPES = [(2, 5, 2, 8), (3, 37, 3, 12), (2, 70, 2, 42)]
ALL = pytest.mark.parametrize("shape", SHAPES, ids=str)


def rows_of(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Queries and keys side by side, a view of projected rows of a longer segment."""
    torch.manual_seed(0)
    batch, rows, heads, width = shape
    return numbers(dtype, batch, rows + 2, 3 * heads, width)[:, 2:, : 2 * heads]


def angles_of(rows: int, width: int) -> Tensor:
    """(R, E/2) of the rows behind a cache."""
    positions = torch.arange(7, 7 + rows, device=DEVICE, dtype=DOUBLE)
    return positions[:, None] * frequencies(width, torch.device(DEVICE))


@ALL
def test_the_twin_rotates_as_the_plain_model_does_and_its_gradient_rotates_back(shape) -> None:
    x = rows_of(shape, DOUBLE)
    angles = angles_of(shape[1], shape[3])
    leaf = x.detach().clone().requires_grad_()
    both = angles.tile(2)[:, None]
    expected = turn(leaf, both.cos(), both.sin())
    gradient = numbers(DOUBLE, *x.shape)
    (to_x,) = torch.autograd.grad(expected, leaf, gradient)
    naive.rotate(x, angles.cos(), angles.sin())
    naive.rotate(gradient, angles.cos(), angles.sin(), backward=True)
    torch.testing.assert_close(x, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient, to_x, rtol=1e-12, atol=1e-12)


@pytest.mark.covering
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@ALL
def test_the_kernel_is_its_twin(shape, dtype: torch.dtype, backward: bool) -> None:
    angles = angles_of(shape[1], shape[3]).float()
    results = []
    for module in (kernels, naive):
        x = rows_of(shape, dtype)
        module.rotate(x, angles.cos(), angles.sin(), backward=backward)
        results.append(x)
    assert_same((results[0],), (results[1],), dtype)


def test_rows_around_the_rotated_ones_stay_as_they_are() -> None:
    torch.manual_seed(0)
    rows = numbers(torch.float32, 2, 7, 6, 8)
    before, angles = rows.clone(), angles_of(5, 8).float()
    kernels.rotate(rows[:, 2:, :4], angles.cos(), angles.sin())
    assert torch.equal(rows[:, :2], before[:, :2])
    assert torch.equal(rows[:, 2:, 4:], before[:, 2:, 4:])
    assert not torch.equal(rows[:, 2:, :4], before[:, 2:, :4])
