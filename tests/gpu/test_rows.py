"""Between products, layer norms, dropout and ReLU: kernels, their plain twins and autograd agree."""

# S seeds · N rows · D width, padded · F inner width

from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu import naive
from rmt.gpu.dropout import Drop, update_keys
from rmt.gpu.kernels import operations as kernels
from rmt.gpu.kernels.products import relu_gradient_product
from rmt.gpu.norms import EPSILON, Branch, Norm
from rmt.gpu.tiles import TILES
from tests.gpu.updates import DEVICE, assert_close

SEEDS, ROWS, INNER, BLOCKS = 2, 37, 48, 2
WIDTHS = pytest.mark.parametrize(("width", "room"), [(32, 32), (26, 32), (70, 80)])
DROPS = pytest.mark.parametrize("probability", [0.0, 0.3], ids=["kept", "dropped"])
NORMS = pytest.mark.parametrize("is_post", [False, True], ids=["pre", "post"])
TOLERANCE = 1e-5
TILE = TILES["relu_product"]["rows"]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """The same in every call."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float32).to(DEVICE)


def filled(width: int, *shape: int, seed: int = 0) -> Tensor:
    """Numbers up to a width, zeros behind."""
    rows = numbers(*shape, seed=seed)
    rows[..., width:] = 0
    return rows


def drop_of(probability: float, site: int = 7) -> Drop | None:
    keys = torch.stack([update_keys(seed, 3) for seed in range(SEEDS)]).to(DEVICE)
    return Drop(keys, probability, site) if probability else None


def norm_of(width: int, room: int, is_post: bool = False) -> Norm:
    """With sums that are added to, in fewer blocks than there are tiles."""
    sums = filled(width, SEEDS, BLOCKS, 3, room, seed=3)
    gain, shift = filled(width, SEEDS, room, seed=1), filled(width, SEEDS, room, seed=2)
    return Norm(gain, shift, sums, width, torch.float32, is_post)


def poison(*shape: int) -> Tensor:
    """Memory that nobody has written to."""
    return torch.full(shape, torch.nan, device=DEVICE)


def normed(module: ModuleType, width: int, room: int, probability: float) -> tuple[Tensor, ...]:
    x, branch = (filled(width, SEEDS, ROWS, room, seed=seed) for seed in (4, 5))
    bias, norm = filled(width, SEEDS, room, seed=6), norm_of(width, room)
    first = module.norm(x, norm, poison(*x.shape))
    second = module.add_norm(x, Branch(branch, bias, drop_of(probability)), norm, poison(*x.shape))
    third = module.add_norm(x, Branch(branch, None, drop_of(probability)), norm, poison(*x.shape))
    return *first, *second, *third


@pytest.mark.covering
@DROPS
@WIDTHS
def test_norms_are_their_twins(width, room, probability):
    results, expected = (normed(module, width, room, probability) for module in (kernels, naive))
    for result, other in zip(results, expected, strict=True):
        assert_close(result, other, TOLERANCE)
        assert not result[..., width:].any() or result.shape[-1] == ROWS  # moments have no padding


def backward(module: ModuleType, width: int, room: int, probability: float, is_post: bool) -> list[Tensor]:
    x, gradient, past = (filled(width, SEEDS, ROWS, room, seed=seed) for seed in (4, 7, 8))
    results = []
    for beside in (past, None):
        norm = norm_of(width, room, is_post)
        before = module.norm(x, norm, poison(*x.shape))
        results += [*module.norm_gradient(gradient, beside, before, norm, drop_of(probability))]
        results.append(norm.sums.sum(1))
    return results


@pytest.mark.covering
@NORMS
@DROPS
@WIDTHS
def test_gradients_of_norms_are_those_of_their_twins(width, room, probability, is_post):
    results, expected = (backward(module, width, room, probability, is_post) for module in (kernels, naive))
    for result, other in zip(results, expected, strict=True):
        assert_close(result, other, TOLERANCE)


@pytest.mark.covering
@pytest.mark.parametrize("module", [kernels, naive], ids=["kernels", "twins"])
@NORMS
@WIDTHS
def test_a_gradient_may_lie_among_other_rows(width, room, is_post, module):
    """As that of a segment does, behind its cache."""
    group, others = ROWS // 2, 3
    among = filled(width, SEEDS, 2, others + group, room, seed=7)
    x, past = (filled(width, SEEDS, 2 * group, room, seed=seed) for seed in (4, 8))
    outcomes = []
    for gradient in (among[:, :, others:], among[:, :, others:].flatten(1, 2).contiguous()):
        norm = norm_of(width, room, is_post)
        before = module.norm(x, norm, poison(*x.shape))
        outcomes.append((*module.norm_gradient(gradient, past, before, norm, drop_of(0.3)), norm.sums))
    for result, other in zip(*outcomes, strict=True):
        assert torch.equal(result, other)


@pytest.mark.covering
@pytest.mark.parametrize("module", [kernels, naive], ids=["kernels", "twins"])
@NORMS
@WIDTHS
def test_a_block_in_its_residual_has_the_gradient_that_autograd_finds(width, room, is_post, module):
    """h = x + dropout(branch + bias); the loss sees LN(h) and, pre-norm, h, post-norm LN(h) again."""
    leaves = [filled(width, *shape, seed=seed) for shape, seed in (
        ((SEEDS, ROWS, room), 4), ((SEEDS, ROWS, room), 5), ((SEEDS, room), 6),
    )]  # fmt: skip
    x, branch, bias = (leaf[..., :width].double().requires_grad_() for leaf in leaves)
    norm, drop = norm_of(width, room, is_post), drop_of(0.3)
    gain, shift = (part[..., :width].double().requires_grad_() for part in norm[:2])
    gradient, past = (filled(width, SEEDS, ROWS, room, seed=seed) for seed in (7, 8))
    mask = naive.kept(drop, torch.Size((SEEDS, ROWS, room)))[..., :width]
    total = x + torch.where(mask, (branch + bias[:, None]) * drop.scale, 0.0)
    unit = F.layer_norm(total, (width,), eps=EPSILON)
    normal = unit * gain[:, None] + shift[:, None]
    loss = (normal * gradient[..., :width]).sum()
    loss = loss + ((normal if is_post else total) * past[..., :width]).sum()
    to_x, to_branch, to_bias, to_gain, to_shift = torch.autograd.grad(loss, (x, branch, bias, gain, shift))
    before = module.add_norm(leaves[0], Branch(leaves[1], leaves[2], drop), norm, poison(SEEDS, ROWS, room))
    assert_close(before.normal[..., :width], normal, TOLERANCE)
    earlier = norm.sums.sum(1)
    result = module.norm_gradient(gradient, past, before, norm, drop)
    sums = (norm.sums.sum(1) - earlier)[..., :width]
    for mine, theirs in zip(
        (*result, *sums.unbind(1)), (to_x, to_branch, to_gain, to_shift, to_bias), strict=True
    ):
        assert_close(mine[..., :width], theirs, 5e-5)


def test_masks_of_kernels_are_those_of_their_twins_number_by_number():
    drop, rows = drop_of(0.3), torch.ones(SEEDS, ROWS, 70, device=DEVICE)
    kept = kernels.dropout(rows, drop) != 0
    assert torch.equal(kept, naive.kept(drop, rows.shape))
    assert_close(
        kernels.dropout(numbers(SEEDS, ROWS, 70), drop), naive.dropout(numbers(SEEDS, ROWS, 70), drop), 1e-6
    )


def test_keys_and_sites_of_all_bits_make_the_same_masks_in_kernels():
    keys = torch.tensor([[2**32 - 1, 2**31], [0x89ABCDEF, 0xFEDCBA98]], device=DEVICE)
    rows = torch.ones(SEEDS, 3, 64, device=DEVICE)
    for probability, site in ((0.01, 3), (0.5, 2**31 + 5), (0.999, 2**20 + 1)):
        drop = Drop(keys, probability, site)
        assert torch.equal(kernels.dropout(rows, drop) != 0, naive.kept(drop, rows.shape))


@DROPS
def test_relu_and_its_gradient_are_their_twins(probability):
    x, matrix, bias = numbers(SEEDS, ROWS, 32), numbers(SEEDS, INNER, 32), numbers(SEEDS, INNER)
    down, gradient = numbers(SEEDS, 32, INNER, seed=1), numbers(SEEDS, ROWS, 32, seed=2)
    drop, results = drop_of(probability), []
    for module in (kernels, naive):
        inner = module.up_relu(x, matrix, bias, drop, poison(SEEDS, ROWS, INNER))
        sums = numbers(SEEDS, BLOCKS, INNER, seed=3)
        scale = 1.0 if drop is None else drop.scale
        results.append((inner, module.relu_down_gradient(gradient, down, inner, sums, scale), sums.sum(1)))
    for result, expected in zip(*results, strict=True):
        assert_close(result, expected, TOLERANCE if DEVICE == "cpu" else 5e-3)


@pytest.mark.parametrize("scale", [1.0, 1.25])
@pytest.mark.parametrize("rows", [2 * TILE, 2 * TILE + 44])
def test_the_product_that_goes_back_through_relu_is_two_steps(rows, scale):
    left, right, inner = (numbers(*shape).half() for shape in ((rows, 80), (80, 208), (rows, 208)))
    result, sums = torch.empty_like(inner), torch.zeros(4, 208, device=DEVICE)
    for _ in range(2):  # sums are added to
        relu_gradient_product(left, right, inner, result, sums, scale)
    expected = torch.where(inner > 0, left.float() @ right.float() * scale, 0.0)
    assert_close(result, expected, 5e-3)
    room = 4 * TILE - rows
    blocks = F.pad(result.float(), (0, 0, 0, room)).unflatten(0, (4, TILE)).sum(1)
    assert_close(sums, 2 * blocks, 1e-3)
