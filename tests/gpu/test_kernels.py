"""The engine with its kernels is the engine in plain torch: outputs, states and all gradients."""

# S seeds · B batch · L tokens of a segment

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from rmt import SegmentModel, State
from rmt.gpu import naive
from rmt.gpu.dropout import update_keys
from rmt.gpu.engine import Engine
from rmt.gpu.kernels import operations as kernels
from rmt.gpu.kernels.fused_layer import tile
from rmt.gpu.segment import Slots
from rmt.gpu.tiles import TILES
from tests.gpu.updates import (
    DEVICE,
    Step,
    assert_close,
    assert_same_outcome,
    differentiated,
    model_of,
    steps,
)

SINGLE = torch.float32
IN_TF32 = DEVICE != "cpu"  # a GPU's kernels multiply float32 so
TOLERANCE = 5e-2 if IN_TF32 else 5e-5
# in TF32 both factors of a product are cut, forward and backward; as much again, for they add up as they like
CUTS = 8
BLOCKS = 2  # that share the sums over rows, so that a program has more rows than one tile
SEEDS = 2


class Way:
    """Which kernels a model runs in: layers whole or in parts, short segments whole or in tiles."""

    def __init__(self, fused: bool, short: bool):
        self.fused, self.short = fused, short

    def take(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kernels, "max_fused_bytes", lambda device: 512 if self.fused else 0)
        if not self.short:
            monkeypatch.setitem(TILES["short_attention"], "rows", 0)

    def __str__(self) -> str:
        return f"{'fused' if self.fused else 'wide'}-{'short' if self.short else 'tiled'}"


# a sample of all kernels: kind, size, way, settings
SAMPLE = [
    ("rmt", "odd", Way(True, True), {"dropout": 0.3}),
    ("transformer_xl_rmt", "odd", Way(False, False), {"dropout": 0.3}),
]
FURTHER = [
    ("rmt", "even", Way(False, True), {"positions": "rotary", "norm": "post"}),
    ("rmt", "odd", Way(True, False), {"norm": "post"}),
]
ALL = [
    (kind, size, Way(fused, short), {"positions": positions, "norm": norm, "dropout": dropout})
    for kind, size in (("rmt", "odd"), ("memory_sees_cache", "even"), ("baseline", "even"))
    for fused in ((True, False) if kind != "memory_sees_cache" else (False,))
    for positions, short in (("relative", True), ("relative", False), ("rotary", True))
    for norm in ("pre", "post")
    for dropout in (0.0, 0.3)
]


def name_of(kind: str, size: str, way: Way, settings: dict[str, Any]) -> str:
    return "-".join([kind, size, str(way), *(str(value) for value in settings.values())])


CASES = [pytest.param(*case, id=name_of(*case)) for case in SAMPLE]
CASES += [pytest.param(*case, id=name_of(*case), marks=pytest.mark.slow) for case in FURTHER]
CASES += [pytest.param(*case, id=f"all-{name_of(*case)}", marks=pytest.mark.slow) for case in ALL]


class Kinks:
    """On which side of zero the ReLUs of an update were, so that its twin can take the same sides.

    Where what a ReLU sees is zero to rounding, TF32 may be on the other side, and there the gradient jumps,
    however small the rounding is.
    """

    def __init__(self) -> None:
        self.rows: list[Tensor] = []  # behind each ReLU, in order: (S, N, F)

    def kernels(self) -> Any:
        """The kernels, their ReLUs written down."""

        def up_relu(*arguments: Any) -> Tensor:
            inner = kernels.up_relu(*arguments)
            self.rows.append(inner.clone())
            return inner

        def fused_layer(residual: Tensor, slots: Slots, *arguments: Any) -> Any:
            outputs = kernels.fused_layer(residual, slots, *arguments)
            self.rows.append(slots.down.right.clone())
            return outputs

        return SimpleNamespace(**{**vars(kernels), "up_relu": up_relu, "fused_layer": fused_layer})

    def twins(self) -> Any:
        """Their twins on the same sides, which they must be on by themselves but where zero is near."""
        rows = iter(self.rows)

        def up_relu(*arguments: Any) -> Tensor:
            own, other = naive.up_relu(*arguments), next(rows)
            differs = (own > 0) != (other > 0)
            assert torch.where(differs, own + other, 0.0).max() <= TOLERANCE * own.max()
            return own.copy_(torch.where(other > 0, own.clamp(min=1e-30), 0.0))

        return SimpleNamespace(**{**vars(naive), "up_relu": up_relu})


def few_blocks(engine: Engine) -> Engine:
    """Room for the sums of a few programs only: they take turns with the rows."""
    weights = engine.weights
    for name in ("norm_sums", "cache_sums", "up_sums", "bias_sums"):
        setattr(weights, name, getattr(weights, name)[:, :, :BLOCKS].clone())
    return engine


def segments_of(batch: int) -> list[Step]:
    """One that is passed, one that counts, a shorter one in which a row begins anew."""
    first, second, _, last = steps(batch)
    return [first, second, last]


@pytest.mark.parametrize(("kind", "size", "way", "settings"), CASES)
def test_the_engine_with_kernels_is_the_engine_in_plain_torch(kind, size, way, settings, monkeypatch):
    way.take(monkeypatch)
    model, keys, kinks = model_of(kind, size, SINGLE, **settings), update_keys(1, 2).to(DEVICE), Kinks()
    engine = few_blocks(Engine(model, SINGLE, operations=kinks.kernels()))
    assert engine.weights.is_fused == way.fused
    outcome = differentiated(model, engine, segments_of(2), keys=keys)
    twin = Engine(model, SINGLE, operations=kinks.twins())
    expected = differentiated(model, twin, segments_of(2), keys=keys)
    tolerance = TOLERANCE
    if IN_TF32 and way.fused:  # else weights are multiplied by torch, in float32
        cut_to_tf32(model)
        twin = Engine(model, SINGLE, operations=kinks.twins())
        cut = differentiated(model, twin, segments_of(2), keys=keys)
        tolerance = max(tolerance, CUTS * farthest(cut.gradients, expected.gradients))
    assert_same_outcome(outcome, expected, tolerance)


def cut_to_tf32(model: SegmentModel) -> None:
    """Weights as TF32 has them, with 10 bits behind the leading one instead of 23."""
    for parameter in model.parameters():
        parameter.data.view(torch.int32).bitwise_and_(-(2**13))


def farthest(gradients: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest difference, each measured by the largest number beside it."""
    return max(
        float((gradients[name] - gradient).abs().max() / gradient.abs().max().clamp(min=1e-30))
        for name, gradient in expected.items()
        if gradient.numel()
    )


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_factors_of_a_fused_layer_wait_side_by_side_from_the_second_update_on(recompute, monkeypatch):
    Way(True, True).take(monkeypatch)
    model, segments = model_of("rmt", "odd", SINGLE), segments_of(2)[1:]
    expected = differentiated(model, Engine(model, SINGLE, operations=naive), segments)
    engine = few_blocks(Engine(model, SINGLE, operations=kernels, recompute=recompute))
    for _ in range(2):
        assert_same_outcome(differentiated(model, engine, segments), expected, TOLERANCE)
    assert bool(engine.weights.qkv.gradients.buffers) != recompute


def test_what_was_measured_for_a_fused_layer_is_what_it_runs_with(monkeypatch):
    for name, value in (("rows", 128), ("columns", 32), ("warps", 8)):
        monkeypatch.setitem(TILES["fused_layer"], name, value)
    assert tile(rows=10**6, width=64) == {"BLOCK_R": 128, "BLOCK_D": 64, "BLOCK_C": 32, "num_warps": 8}
    assert tile(rows=100, width=64)["num_warps"] == 4


class Stacked:
    """Seeds of one model, their updates made at once."""

    def __init__(self, kind: str, operations: ModuleType, **settings: Any):
        self.model = model_of(kind, "odd", SINGLE, **settings)
        generator = torch.Generator().manual_seed(5)
        self.parameters = {
            name: (0.3 * torch.randn(SEEDS, *parameter.shape, generator=generator))
            .to(DEVICE)
            .requires_grad_()
            for name, parameter in self.model.named_parameters()
        }
        engine = Engine(self.model, SINGLE, parameters=self.parameters, operations=operations)
        self.engine = few_blocks(engine)

    def encode(self, tokens: Tensor, state: State | None, **options: Any) -> tuple[Any, ...]:
        """A segment of every seed: (S, B, L)."""
        fixed = {"predict": False} if not options else {}

        def encode(
            parameters: dict[str, Tensor], tokens: Tensor, state: State, tensors: dict[str, Tensor]
        ) -> tuple[Any, ...]:
            named = {**tensors, **fixed}
            output = functional_call(self.engine.model, parameters, (tokens, state), named)
            return output.logits, output.state, *(() if fixed else (output.losses,))

        return vmap(encode)(self.parameters, tokens, state, options)

    def update(self, batch: int) -> list[Tensor]:
        """Logits, losses, the state behind, and all gradients."""
        segments = [torch.stack([segment.tokens] * SEEDS) for segment in segments_of(batch)]
        self.engine.begin(torch.stack([update_keys(seed, 0) for seed in range(SEEDS)]).to(DEVICE))
        initial = self.model.initial_state(batch)
        state = initial.map(lambda tensor: torch.stack([tensor] * SEEDS).contiguous())
        _, state = self.encode(segments[0], state)
        logits, state, losses = self.encode(segments[1], state, targets=segments[1])
        shorter, state, others = self.encode(segments[2], state, targets=segments[2])
        (losses.sum() + others.sum() + state.memory.square().sum()).backward()
        self.engine.deliver()
        gradients = [parameter.grad for parameter in self.parameters.values() if parameter.grad is not None]
        return [logits, shorter, losses, others, *state.flat(), *gradients]


@pytest.mark.parametrize(
    ("kind", "batch", "settings"),
    [
        pytest.param("rmt", 2, {"dropout": 0.3}, id="rmt", marks=pytest.mark.slow),
        pytest.param("transformer_xl_rmt", 1, {"dropout": 0.3}, id="cache-of-single-rows"),
        pytest.param("rmt", 1, {"positions": "rotary"}, id="single-rows", marks=pytest.mark.slow),
        pytest.param("transformer_xl", 2, {"norm": "post"}, id="cache", marks=pytest.mark.slow),
    ],
)
def test_kernels_take_many_seeds(kind, batch, settings):
    results, expected = (Stacked(kind, each, **settings).update(batch) for each in (kernels, naive))
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert_close(result, other, TOLERANCE)
