"""Output layers: losses and gradients in kernels are those of torch, and the tables get theirs."""

# S seeds · N rows · V classes, padded

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu import naive
from rmt.gpu.cross_entropy import OutputLayer, TableSlice
from rmt.gpu.kernels import operations as kernels
from rmt.gpu.settings import EngineSettings
from rmt.gpu.tiles import TILES
from tests.gpu.updates import DEVICE, assert_close

SEEDS, ROWS = 2, 5
OPERATIONS = pytest.mark.parametrize("operations", [kernels, naive], ids=["kernels", "twins"])
# fewer classes than a tile, and more than one
CLASSES = pytest.mark.parametrize(("classes", "room", "elements"), [(11, 16, 4096), (75, 80, 32)])


def scores_of(room: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(SEEDS, ROWS, room, generator=generator, dtype=torch.float32).mul_(3).to(DEVICE)


@pytest.mark.covering
@OPERATIONS
@CLASSES
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "overwritten"])
def test_losses_and_gradients_are_those_of_torch(operations, classes, room, elements, keep, monkeypatch):
    monkeypatch.setitem(TILES["cross_entropy"], "elements", elements)
    scores = scores_of(room)
    targets = torch.tensor([[2, 0, classes - 1, -100, 1], [3, -1, 4, 7, 0]], device=DEVICE)
    leaf = scores[..., :classes].clone().requires_grad_()
    ignored = targets.where(targets >= 0, -100)
    expected = F.cross_entropy(leaf.flatten(0, 1), ignored.flatten(), reduction="none").view_as(targets)
    expected.sum().backward()
    before = scores.clone()
    losses, gradient = operations.cross_entropy(scores, targets, classes, keep)
    assert_close(losses, expected, 1e-5)
    assert_close(gradient[..., :classes], leaf.grad, 1e-5)
    assert not gradient[..., classes:].any()
    assert torch.equal(scores, before) or not keep


def test_what_is_no_class_has_no_loss_and_what_cannot_be_one_is_not_a_number():
    targets = torch.tensor([[2, -100, 10, 12, 11]] * SEEDS, device=DEVICE)
    losses, gradient = kernels.cross_entropy(scores_of(16), targets, 11, keep=False)
    assert losses[:, :3].isfinite().all()
    assert losses[:, 3:].isnan().all()
    assert not losses[:, 1].any()
    assert not gradient[:, 1].any()


@OPERATIONS
def test_no_row_has_no_loss(operations):
    losses, gradient = operations.cross_entropy(
        scores_of(16)[:, :0], torch.zeros(SEEDS, 0, dtype=torch.long, device=DEVICE), 11, keep=True
    )
    assert losses.shape == (SEEDS, 0)
    assert gradient.shape == (SEEDS, 0, 16)


@OPERATIONS
def test_targets_that_seeds_share_are_those_of_each(operations):
    shared = torch.tensor([2, 0, 5, -100, 1], device=DEVICE).expand(SEEDS, -1)
    expected = operations.cross_entropy(scores_of(16), shared.contiguous(), 11, keep=True)
    for result, other in zip(
        operations.cross_entropy(scores_of(16), shared, 11, keep=True), expected, strict=True
    ):
        assert torch.equal(result, other)


@pytest.mark.parametrize(("width", "classes"), [(6, 40), (40, 6)], ids=["wide", "narrow"])
@pytest.mark.parametrize("max_waiting", [0, 10**6])
def test_an_output_layer_of_slices_has_the_gradients_of_autograd(width, classes, max_waiting):
    """Two slices, of which one is not at the start of its table; whichever factor is narrower."""
    torch.manual_seed(0)
    double = {"dtype": torch.float64, "device": DEVICE}
    table, bias = torch.randn(classes + 3, width, **double), torch.randn(classes + 3, **double)
    more, more_bias = torch.randn(2, width, **double), torch.randn(2, **double)
    slices = [TableSlice(table, bias, 3, classes + 3), TableSlice(more, more_bias, 0, 2)]
    layer = OutputLayer(slices, EngineSettings(torch.float64, naive, True, max_waiting))
    hidden = torch.randn(7, width, **double).requires_grad_()
    targets = torch.tensor([0, 5, -100, classes + 1, 2, 2, 1], device=DEVICE)
    weights = torch.randn(7, **double)  # of the losses
    leaves = [part.clone().requires_grad_() for part in (table, bias, more, more_bias)]
    matrix, column = torch.cat([leaves[0][3:], leaves[2]]), torch.cat([leaves[1][3:], leaves[3]])
    plain = F.cross_entropy(F.linear(hidden, matrix, column), targets, reduction="none")
    to_hidden, *expected = torch.autograd.grad((plain * weights).sum(), (hidden, *leaves))
    for _ in range(2):
        layer.begin()
        scores, losses = layer.losses(hidden, targets, keep=True)
        assert_close(losses, plain, 1e-12)
        assert_close(scores, F.linear(hidden, matrix, column), 1e-12)
        (mine,) = torch.autograd.grad((losses * weights).sum(), hidden)
        assert_close(mine, to_hidden, 1e-12)
        (to_table, to_bias), (to_more, to_more_bias) = layer.table_gradients()
        results = to_table[0], to_bias[0], to_more[0], to_more_bias[0]
        parts = expected[0][3:], expected[1][3:], expected[2], expected[3]
        for result, other in zip(results, parts, strict=True):
            assert_close(result, other, 1e-12)
