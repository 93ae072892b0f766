"""Muon: batched over equal shapes, and still the rule that torch has for one matrix at a time."""

import math
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from rmt.train.muon import Muon, directions
from tests.laws.models import assert_same

SHAPES = ((4, 6), (6, 4), (5, 5), (4, 6), (1, 7))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1], ids=["no-decay", "decay"])
def test_muon_follows_its_rule_step_by_step(weight_decay):
    matrices, gradients = random_matrices(), random_gradients(steps=4)
    expected = [matrix.detach().clone() for matrix in matrices]
    momenta = [torch.zeros_like(matrix) for matrix in matrices]
    optimizer = Muon(matrices, lr=0.02, momentum=0.9, weight_decay=weight_decay)
    for step in gradients:
        take(optimizer, matrices, step)
        for matrix, momentum, gradient in zip(expected, momenta, step, strict=True):
            momentum.mul_(0.9).add_(gradient, alpha=0.1)
            direction = newton_schulz(0.1 * gradient + 0.9 * momentum)
            matrix *= 1 - 0.02 * weight_decay
            matrix -= 0.02 * math.sqrt(max(1.0, matrix.shape[0] / matrix.shape[1])) * direction
        assert_same([matrix.detach() for matrix in matrices], expected, tolerance=1e-10)


def test_muon_is_torchs_muon_to_the_rounding_of_bfloat16():
    mine, theirs = random_matrices(), random_matrices()
    start = [matrix.detach().clone() for matrix in mine]
    optimizers = (
        Muon(mine, lr=0.02, momentum=0.9, weight_decay=0.1),
        torch.optim.Muon(theirs, lr=0.02, momentum=0.9, weight_decay=0.1, adjust_lr_fn="original"),
    )
    for step in random_gradients(steps=4):
        for optimizer, matrices in zip(optimizers, (mine, theirs), strict=True):
            take(optimizer, matrices, step)
    for matrix, twin, before in zip(mine, theirs, start, strict=True):
        assert (matrix - twin).norm() < 0.03 * (twin - before).norm()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_direction_is_nearly_orthogonal(shape):
    (direction,) = directions([random_gradients(1)[0][SHAPES.index(shape)]], lr=-1.0)
    values = torch.linalg.svdvals(direction) / math.sqrt(max(1.0, shape[0] / shape[1]))
    assert values.min() > 0.3
    assert values.max() < 1.3


def test_a_direction_does_not_depend_on_the_scale_or_on_the_company():
    matrices = [random_gradients(1)[0][0], random_gradients(1)[0][3]]
    together = directions([1e-6 * matrices[0], 1e6 * matrices[1]], lr=-1.0)
    assert_same(together, [newton_schulz(matrix) for matrix in matrices], tolerance=1e-9)


def test_stacked_matrices_move_each_as_if_alone():
    alone, gradients = random_matrices(), random_gradients(steps=3)
    same = [place for place, shape in enumerate(SHAPES) if shape == (4, 6)]
    stacked = nn.Parameter(torch.stack([alone[place].detach() for place in same]))
    twin, optimizer = Muon(alone, lr=0.02, weight_decay=0.1), Muon([stacked], lr=0.02, weight_decay=0.1)
    for step in gradients:
        take(twin, alone, step)
        take(optimizer, [stacked], [torch.stack([step[place] for place in same])])
    assert_same(stacked.detach(), torch.stack([alone[place].detach() for place in same]), tolerance=1e-12)


def test_a_gradient_of_zero_moves_nothing():
    matrices = random_matrices()
    before = [matrix.detach().clone() for matrix in matrices]
    take(Muon(matrices, lr=0.02), matrices, [torch.zeros_like(matrix) for matrix in matrices])
    assert_same([matrix.detach() for matrix in matrices], before, tolerance=0)


def test_a_matrix_without_gradient_stays_where_it_is():
    matrices, (step,) = random_matrices(), random_gradients(steps=1)
    before = matrices[0].detach().clone()
    optimizer = Muon(matrices, lr=0.02, weight_decay=0.5)
    take(optimizer, matrices, [None, *step[1:]])
    assert torch.equal(matrices[0], before)
    assert matrices[0] not in optimizer.state


def test_the_state_survives_a_round_trip():
    first, second = random_gradients(steps=2)
    straight, resumed = random_matrices(), random_matrices()
    optimizer = Muon(straight, lr=0.02)
    take(optimizer, straight, first)
    with torch.no_grad():
        for matrix, trained in zip(resumed, straight, strict=True):
            matrix.copy_(trained)
    again = Muon(resumed, lr=0.5)
    again.load_state_dict(deepcopy(optimizer.state_dict()))
    take(optimizer, straight, second)
    take(again, resumed, second)
    assert all(torch.equal(*pair) for pair in zip(straight, resumed, strict=True))


def random_matrices() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in SHAPES]


def random_gradients(steps: int) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
        for _ in range(steps)
    ]


def take(
    optimizer: torch.optim.Optimizer, matrices: list[nn.Parameter], gradients: list[Tensor | None]
) -> None:
    for matrix, gradient in zip(matrices, gradients, strict=True):
        matrix.grad = gradient
    optimizer.step()


def newton_schulz(matrix: Tensor) -> Tensor:
    """Five steps of x ← 3.4445 x − 4.7750 (x xᵀ) x + 2.0315 (x xᵀ)² x on the singular values."""
    u, values, vh = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return u @ torch.diag(values) @ vh
