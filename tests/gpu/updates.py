"""An update in miniature: segments through a plain model or its fast copy, and all that comes of it."""

# B batch · L tokens of a segment

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt import ModelConfig, Output, SegmentModel, State
from rmt.core.unroll import unroll
from rmt.gpu import naive
from rmt.gpu.engine import Engine
from tests.laws.models import build, configuration, random_tokens

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH = 3
# widths that 16 divides, and widths that have to be filled up
SIZES = {
    "even": {"layers": 2, "heads": 2, "head_width": 16, "width": 32, "inner_width": 48},
    "odd": {"layers": 2, "heads": 3, "head_width": 10, "width": 26, "inner_width": 21},
}
# all that the engine serves; with a cache of 5, which one segment does not fill
SERVED = (
    "rmt",
    "memory_transformer",
    "baseline",
    "transformer_xl",
    "transformer_xl_rmt",
    "unwritten_memory",
    "memory_transformer_with_cache",
    "cache_of_all_positions",
    "memory_sees_cache",
)


class Step(NamedTuple):
    """A segment, what is to be predicted from it, if anything, and which rows begin anew."""

    tokens: Tensor  # (B, L)
    targets: Tensor | None  # (B, L)
    reset: Tensor | None  # (B,)


class Outcome(NamedTuple):
    """What an update leaves."""

    outputs: list[Output]
    gradients: dict[str, Tensor]


def model_of(
    kind: str, size: str = "odd", dtype: torch.dtype = torch.float64, **settings: object
) -> SegmentModel:
    """A model in training mode with random weights."""
    return model_from(configuration(kind, **{**SIZES[size], **settings}), dtype)


def model_from(config: ModelConfig, dtype: torch.dtype = torch.float64) -> SegmentModel:
    return build(config).train().to(DEVICE, dtype)


def engine_of(model: SegmentModel, **settings: Any) -> Engine:
    """In the precision of its model, in plain torch."""
    return Engine(model, next(model.parameters()).dtype, operations=naive, **settings)


def steps(batch: int = BATCH, seed: int = 1) -> list[Step]:
    """One that is passed, one that counts, both again; the last is shorter, and in it a row begins anew."""
    tokens, targets = (random_tokens(4, batch, 4, seed=seed + number).to(DEVICE) for number in range(2))
    anew = torch.arange(batch, device=DEVICE) == batch - 1
    return [
        Step(tokens[0], None, None),
        Step(tokens[1], targets[1], None),
        Step(tokens[2], None, None),
        Step(tokens[3, :, :3], targets[3, :, :3], anew),
    ]


def outputs_of(
    model: SegmentModel,
    segments: Sequence[Step],
    capacities: tuple[int, ...] = (),
    wrap: Callable[[Any], Any] = lambda cell: cell,
) -> list[Output]:
    """All segments from the initial state, each by a call that may be wrapped."""

    def encode(step: Step, state: State) -> Output:
        tokens, targets, reset = step
        if targets is None:
            return model(tokens, state, reset=reset, predict=False)
        return model(tokens, state, reset=reset, targets=targets, capacities=capacities)

    return list(unroll(wrap(encode), segments, model.initial_state(len(segments[0].tokens))))


def loss_of(outputs: Sequence[Output]) -> Tensor:
    """All losses, and something of the memory that is left."""
    losses = [output.losses.sum() for output in outputs if output.losses is not None]
    return torch.stack(losses).sum() + outputs[-1].state.memory.square().sum()


def differentiated(
    model: SegmentModel,
    engine: Engine | None = None,
    segments: Sequence[Step] = (),
    capacities: tuple[int, ...] = (),
    keys: Tensor | None = None,
    loss_of: Callable[[Sequence[Output]], Tensor] = loss_of,
    wrap: Callable[[Any], Any] = lambda cell: cell,
) -> Outcome:
    """An update of the model, by its engine if there is one, up to its gradients."""
    model.zero_grad()
    if engine is not None:
        engine.begin(keys)
    outputs = outputs_of(model if engine is None else engine.model, segments or steps(), capacities, wrap)
    loss_of(outputs).backward()
    if engine is not None:
        engine.deliver()
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        for name, parameter in model.named_parameters()
    }
    return Outcome(outputs, gradients)


def assert_same_outcome(outcome: Outcome, expected: Outcome, tolerance: float = 1e-12) -> None:
    """Equal outputs, states where the cache is valid, and gradients, measured by the largest number."""
    for output, other in zip(outcome.outputs, expected.outputs, strict=True):
        assert_close(output.logits, other.logits, tolerance)
        assert (output.losses is None) == (other.losses is None)
        if output.losses is not None and other.losses is not None:
            assert_close(output.losses, other.losses, tolerance)
        assert torch.equal(output.state.cached, other.state.cached)
        assert_close(output.state.memory, other.state.memory, tolerance)
        for rows, same in zip(output.state.cache, other.state.cache, strict=True):
            exists = torch.arange(rows.shape[1], device=DEVICE) >= rows.shape[1] - other.state.cached[:, None]
            assert_close(rows[exists], same[exists], tolerance)
    assert outcome.gradients.keys() == expected.gradients.keys()
    assert any(gradient.any() for gradient in expected.gradients.values())
    for name, gradient in expected.gradients.items():
        assert_close(outcome.gradients[name], gradient, tolerance, name)


def assert_close(result: Tensor, expected: Tensor, tolerance: float, what: str = "") -> None:
    """Equal to a tolerance, measured by the largest number."""
    result, expected = result.detach().double(), expected.detach().double()
    scale = float(expected.abs().max()) if expected.numel() else 1.0
    torch.testing.assert_close(
        result / (scale or 1.0),
        expected / (scale or 1.0),
        rtol=tolerance,
        atol=tolerance,
        msg=lambda text: f"{what}: {text}",
    )
