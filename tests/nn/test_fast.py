"""The model whose gradient is written down is the one that autograd differentiates."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from rmt.core.serving import Served
from rmt.nn.fast import classes, encode, look, prepared, products, rowwise
from rmt.nn.fast.gradients import Gradients
from rmt.nn.heads import INTERPRETED, KERNELS
from torch import Tensor

from rmt import SegmentModel, presets
from rmt.nn.axis import Axis

DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
needs_kernels = pytest.mark.skipif(not KERNELS, reason="needs a CUDA device")

CHOOSING = (rowwise, look, prepared, products, classes)  # kernels or plain torch

# widths that 16 divides, and widths that have to be filled up
SIZES = {
    "even": {"layers": 2, "heads": 2, "head_width": 16, "width": 32, "inner_width": 48},
    "odd": {"layers": 3, "heads": 3, "head_width": 10, "width": 26, "inner_width": 21},
}
MODELS = {
    "rmt": lambda **sizes: presets.rmt(3, **sizes),
    "memory_transformer": lambda **sizes: presets.memory_transformer(3, **sizes),
    "baseline": lambda **sizes: presets.baseline(**sizes),
}


def built(preset: str, size: str, positions: str, dtype: torch.dtype, **more: Any) -> SegmentModel:
    torch.manual_seed(0)
    model = SegmentModel(MODELS[preset](vocabulary=11, positions=positions, **SIZES[size], **more))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0, 0.3)
    return model.to(DEVICE, dtype)


def loss_of(model: SegmentModel, quiet: bool) -> Tensor:
    """Two segments that count, perhaps behind one of which only the state is needed."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(11, (4, 3, 5), generator=generator).to(DEVICE)
    state = model.initial_state(3)
    if quiet:
        state = model(tokens[0], state, predict=False).state
    first = model(tokens[0], state, targets=tokens[2])
    second = model(tokens[1], first.state, targets=tokens[3])
    assert first.losses is not None
    assert second.losses is not None
    return first.losses.sum() + second.losses.sum() + second.state.memory.square().sum()


def differentiated(model: SegmentModel, ready: Served | None, quiet: bool) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    if ready is None:
        loss = loss_of(model, quiet)
        loss.backward()
    else:
        with ready:
            loss = loss_of(model, quiet)
            loss.backward()
        ready.deliver()
    return loss.detach(), [one.grad for one in model.parameters() if one.grad is not None and one.numel()]


def assert_same(model: SegmentModel, ready: Served, quiet: bool, tolerance: float) -> None:
    loss, gradients = differentiated(model, None, quiet)
    for _ in range(2):  # what an update leaves behind does not disturb the next
        mine, own = differentiated(model, ready, quiet)
        torch.testing.assert_close(mine, loss, rtol=tolerance, atol=tolerance)
        for one, other in zip(own, gradients, strict=True):
            scale = float(other.abs().max()) or 1.0
            torch.testing.assert_close(one / scale, other / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("quiet", [False, True], ids=["counted", "quiet"])
@pytest.mark.parametrize("positions", ["relative", "rotary"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("preset", MODELS)
def test_outputs_and_gradients_are_those_of_autograd(
    preset: str, size: str, positions: str, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in CHOOSING:
        monkeypatch.setattr(module, "tiled", lambda x: False)
    model = built(preset, size, positions, torch.float64)
    assert_same(model, Served(model, torch.float64), quiet, 1e-12)


@pytest.mark.parametrize("div_val", [None, 1, 2], ids=["one-table", "clusters", "narrow-clusters"])
@pytest.mark.parametrize("positions", ["relative", "rotary"])
@pytest.mark.parametrize("preset", MODELS)
def test_a_wide_model_in_bfloat16_is_nearly_autograds(
    preset: str, positions: str, div_val: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Residuals in half precision, a quiet segment, tables with clusters and without."""
    monkeypatch.setattr(prepared, "NARROW", 0)
    clusters = {} if div_val is None else {"cutoffs": (4,), "div_val": div_val}
    model = built(preset, "odd", positions, torch.float32, **clusters)
    ready = Served(model, torch.bfloat16)
    assert ready.layers.stream == torch.bfloat16
    loss, gradients = differentiated(model, None, quiet=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        mine, own = differentiated(model, ready, quiet=True)
    assert abs(mine - loss) < 0.02 * loss
    for one, other in zip(own, gradients, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.25 * other.norm()


@pytest.mark.parametrize("most", [0, 500, 5000])
def test_no_more_waits_than_may_and_nothing_is_lost(most: int) -> None:
    model = built("rmt", "odd", "relative", torch.float64)
    ready = Served(model, torch.float64, most=most)
    assert_same(model, ready, True, 1e-12)
    with ready:
        loss_of(model, quiet=True).backward()
        waiting = [ready.layers.qkv.gradients, ready.layers.down.gradients]
        assert all(one.count <= most for one in waiting)
        assert any(one.count > 0 for one in waiting) == (most > 500)


@pytest.mark.parametrize("skipped", [None, 1], ids=["all", "one-unused"])
def test_factors_that_are_written_side_by_side_are_those_that_wait(
    skipped: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three updates of growing size: factors wait apart, side by side, and some of both."""
    real, held = Gradients.hold, []

    def hold(self: Gradients, pairs: list[tuple[Tensor, Tensor]]) -> bool:
        held.append(real(self, pairs))
        return held[-1]

    monkeypatch.setattr(Gradients, "hold", hold)
    generator = torch.Generator().manual_seed(3)
    totals = Gradients(torch.empty(3, 1, 2, 4, dtype=torch.float64), torch.float64, most=10**6)
    for sizes in ([5, 3], [5, 3], [5, 3, 4]):
        totals.forget()
        expected = torch.zeros(3, 1, 2, 4, dtype=torch.float64)
        made = []
        for size in sizes:
            rights = [totals.room(number, size) for number in range(3)]
            for right in rights:
                right.copy_(torch.randn(right.shape, generator=generator, dtype=torch.float64))
            made.append(rights)
        for index, rights in reversed(list(enumerate(made))):  # gradients come in the other order
            for number, right in enumerate(rights):
                if number == 2 and index == skipped:
                    continue
                left = totals.beside(number, right)
                left.copy_(torch.randn(left.shape, generator=generator, dtype=torch.float64))
                expected[number] += left.mT @ right
                totals.add(number, left, right)
        torch.testing.assert_close(totals.sums(), expected, rtol=1e-12, atol=1e-12)
    assert totals.sides[0].shape == (3, 12, 2)
    assert [sides[0].shape[1] for sides in totals.earlier] == [8]
    assert held == [True]  # once, for all that were not left out


def test_a_sum_does_not_depend_on_where_its_factors_waited() -> None:
    generator = torch.Generator().manual_seed(4)
    numbers = [torch.randn(2, 1, 40, 32, generator=generator, dtype=torch.float32) for _ in range(6)]
    totals = Gradients(torch.empty(1, 1, 32, 32, dtype=torch.float32), torch.float32, most=10**9)
    found = []
    for _ in range(2):
        totals.forget()
        rights = [totals.room(0, 40).copy_(right) for _, right in numbers]
        for right, (left, _) in reversed(list(zip(rights, numbers, strict=True))):
            totals.add(0, totals.beside(0, right).copy_(left), right)
        found.append(totals.sums().clone())
    assert torch.equal(*found)


def test_what_waits_is_not_written_over_after_a_sum() -> None:
    totals = Gradients(torch.empty(1, 1, 1, 1, dtype=torch.float64), torch.float64, most=100)
    large = totals.room(0, 4)
    totals.add(0, totals.beside(0, large), large)
    totals.sums()  # from now on, four rows can wait side by side
    totals.forget()
    first, second = totals.room(0, 2).fill_(1.0), totals.room(0, 2).fill_(3.0)
    totals.add(0, totals.beside(0, first).fill_(1.0), first)
    totals.sums()
    totals.add(0, totals.beside(0, second).fill_(1.0), second)
    for _ in range(2):
        totals.room(0, 2).fill_(7.0)
    assert totals.sums().item() == 8.0


# narrow layers as one kernel or not, short segments as one or not; with all widths filled up, or none
CASES = [
    pytest.param(128, 64, "odd", "relative", True, id="narrow-near"),
    pytest.param(0, 64, "even", "relative", False, id="near"),
    pytest.param(128, 0, "even", "relative", True, id="narrow-shifted"),
    pytest.param(0, 0, "odd", "relative", True, id="shifted"),
    pytest.param(128, 64, "odd", "rotary", True, id="narrow-rotary"),
    pytest.param(0, 64, "even", "rotary", False, id="rotary"),
]


@pytest.mark.gpu
@needs_kernels
@pytest.mark.parametrize(("narrow", "longest", "size", "positions", "quiet"), CASES)
def test_the_kernels_do_the_same(
    narrow: int, longest: int, size: str, positions: str, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmt.nn.fast import near

    monkeypatch.setattr(prepared, "NARROW", narrow)
    monkeypatch.setattr(near, "LONGEST", longest)
    for module in CHOOSING:
        monkeypatch.setattr(module, "tiled", lambda x: True)
    model = built("rmt", size, positions, torch.float32)
    # float32 in the interpreter; products of a GPU's kernels are in TF32
    assert_same(model, Served(model, torch.float32), quiet, 1e-5 if DEVICE == "cpu" else 5e-2)


def encoded(tiled: bool, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The last rows of two seeds' segments and all gradients, with room for the sums of one program."""
    for module in CHOOSING:
        monkeypatch.setattr(module, "tiled", lambda x: tiled)
    generator = torch.Generator().manual_seed(2)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).mul_(0.5).to(DEVICE).requires_grad_()

    backbone = built("rmt", "odd", "relative", torch.float32).backbone
    parameters = {name: numbers(2, *one.shape) for name, one in backbone.named_parameters()}
    ready = prepared.Prepared(backbone, torch.float32, parameters, True, 2**20)
    ready.norm_sums, ready.up_sums = (sums[:, :, :1].clone() for sums in (ready.norm_sums, ready.up_sums))
    ready.refresh()
    rows = numbers(2, 3, 7, 26)
    places = torch.arange(7, device=DEVICE)
    axis = Axis(places, places[:, None] >= places, places[:0])
    found = encode.Encode.apply(rows, encode.Call(ready, axis, last=4, keeps=True))
    found.backward(numbers(*found.shape).detach())
    ready.deliver()
    return [found.detach(), *(one.grad for one in (rows, *parameters.values()) if one.grad is not None)]


@pytest.mark.gpu
@needs_kernels
def test_narrow_kernels_take_many_seeds_and_more_rows_than_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, plain = (encoded(tiled, monkeypatch) for tiled in (True, False))
    tolerance = 1e-5 if DEVICE == "cpu" else 5e-2
    for one, other in zip(kernels, plain, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one / scale, other / scale, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@needs_kernels
def test_what_is_no_class_has_no_loss_and_what_cannot_be_one_is_not_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(classes, "tiled", lambda x: True)
    scores = torch.randn(1, 4, 16, device=DEVICE)
    targets = torch.tensor([[2, -100, 10, 12]], device=DEVICE)
    losses, gradient = classes.scored(scores.clone(), targets, 11, keep=False)
    expected = torch.nn.functional.cross_entropy(scores[0, :3, :11], targets[0, :3], reduction="none")
    torch.testing.assert_close(losses[0, :3], expected, rtol=1e-5, atol=1e-5)
    assert losses[0, 3].isnan()
    assert not gradient[0, 1].any()
    assert not gradient[..., 11:].any()


@pytest.mark.gpu
@needs_kernels
def test_the_product_that_goes_back_through_relu_is_two_steps() -> None:
    from rmt.nn.fast.products import relu_gradient_product

    torch.manual_seed(0)
    left, right, inner = (
        torch.randn(*shape, device=DEVICE).half() for shape in ((300, 80), (80, 208), (300, 208))
    )
    found, sums = torch.empty_like(inner), torch.zeros(4, 208, device=DEVICE, dtype=torch.float32)
    for _ in range(2):
        relu_gradient_product(left, right, inner, found, sums)
    expected = torch.where(inner > 0, left.float() @ right.float(), 0.0)
    torch.testing.assert_close(found.float(), expected, rtol=1e-3, atol=1e-2)
    blocks = torch.nn.functional.pad(found.float(), (0, 0, 0, 512 - 300)).unflatten(0, (4, 128)).sum(1)
    torch.testing.assert_close(sums, 2 * blocks, rtol=1e-3, atol=1e-3)


def test_a_backbone_is_itself_again_afterwards() -> None:
    model = built("rmt", "odd", "rotary", torch.float64)
    with pytest.raises(KeyError), Served(model, torch.float64):
        raise KeyError
    assert model.backbone.prepared is None


def test_a_model_is_itself_again_if_serving_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("rmt", "odd", "rotary", torch.float64)
    ready = Served(model, torch.float64)
    monkeypatch.setattr(classes.Classes, "refresh", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError), ready:
        pass
    assert model.backbone.prepared is None


def test_reading_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("rmt", "odd", "relative", torch.float64)
    monkeypatch.setattr(encode, "Kept", None)  # cannot be called
    with torch.no_grad(), Served(model, torch.float64, learns=False):
        model(torch.randint(11, (2, 4)), model.initial_state(2))


def test_frozen_parameters_get_no_gradient() -> None:
    model = built("rmt", "odd", "relative", torch.float64)
    model.backbone.requires_grad_(False)
    _, gradients = differentiated(model, Served(model, torch.float64), quiet=False)
    assert gradients
    assert all(parameter.grad is None for parameter in model.backbone.parameters())


def test_what_is_read_is_what_the_parameters_are_when_it_begins() -> None:
    model = built("rmt", "odd", "relative", torch.float64)
    ready = Served(model, torch.float64, learns=False)
    tokens, state = torch.randint(11, (2, 4)), model.initial_state(2)
    for _ in range(2):
        with torch.no_grad(), ready:
            found = model(tokens, state).logits
        torch.testing.assert_close(found, model(tokens, state).logits, rtol=1e-12, atol=1e-12)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1)


@pytest.fixture(autouse=True)
def plain_device() -> Iterator[None]:
    """Products in float32 stay so."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)
