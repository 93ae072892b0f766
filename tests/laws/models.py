"""The models the laws are held against: tiny, with random weights that let no error hide."""

# B batch · L tokens of a segment · T tokens of all segments · V vocabulary

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from rmt import ModelConfig, Output, SegmentModel, State, presets
from rmt.core.unroll import unroll
from tests.covering import quick
from tests.laws import layer_memory  # noqa: F401  # the toy kind

VOCABULARY, WIDTH, LAYERS, HEADS = 12, 8, 2, 2
MEMORY, CACHE, LENGTH = 3, 5, 4  # one segment does not fill the cache, two do
SIZES = {
    "vocabulary": VOCABULARY,
    "width": WIDTH,
    "inner_width": 12,
    "layers": LAYERS,
    "heads": HEADS,
    "head_width": 4,
}

PRESETS = {
    "baseline": {},
    "memory_transformer": {"memory": MEMORY},
    "transformer_xl": {"cache": CACHE},
    "rmt": {"memory": MEMORY},
    "transformer_xl_rmt": {"memory": MEMORY, "cache": CACHE},
}
# name: (the preset it starts from, what it sets in `memory`, what it sets in `cache`)
VARIANTS = {
    "unwritten_memory": ("rmt", {"write": False}, {}),
    "memory_transformer_with_cache": ("memory_transformer", {}, {"size": CACHE}),
    "cache_of_all_positions": ("transformer_xl_rmt", {}, {"scope": "all"}),
    "memory_sees_cache": ("transformer_xl_rmt", {"sees_cache": True}, {"scope": "all"}),
    "cache_with_sink": ("transformer_xl_rmt", {}, {"sink": 2}),
    "memory_in_layers": ("rmt", {"kind": "layer_average"}, {}),
    "memory_in_layers_with_cache": ("transformer_xl_rmt", {"kind": "layer_average"}, {}),
    "associative_memory": ("rmt", {"kind": "associative"}, {}),
    "associative_memory_with_cache": ("transformer_xl_rmt", {"kind": "associative"}, {}),
}
KINDS = (*PRESETS, *VARIANTS)
IN_LAYERS = tuple(name for name, (_, memory, _) in VARIANTS.items() if "kind" in memory)
NORMS = ("pre", "post")
POSITIONS = ("relative", "rotary", "relative-lm-rmt")
STEPPABLE = ("relative", "rotary")


def over(kinds: Sequence[str] = KINDS, positions: Sequence[str] = POSITIONS) -> pytest.MarkDecorator:
    """Run a test with `config` of these kinds and positions, norms in turn; slowly, presets have both norms.

    Of three positions, quick tests have two of each kind, in turn.
    """
    turns = [(position, NORMS[place % 2]) for place, position in enumerate(positions)]
    cases, few = {}, []
    for number, kind in enumerate(kinds):
        for position, norm in product(positions, NORMS) if kind in PRESETS else turns:
            cases[f"{kind}-{norm}-{position}"] = configuration(kind, norm=norm, positions=position)
        quick_turns = [turn for place, turn in enumerate(turns) if len(turns) < 3 or place != number % 3]
        few += [f"{kind}-{norm}-{position}" for position, norm in quick_turns]
    return pytest.mark.parametrize("config", quick(cases, *few))


def configuration(kind: str, **settings: object) -> ModelConfig:
    """A configuration by its name in PRESETS or VARIANTS, with other sizes or settings where given."""
    if kind in PRESETS:
        return presets.preset(kind, **(SIZES | PRESETS[kind] | settings))
    base, memory, cache = VARIANTS[kind]
    config = configuration(base, **settings)
    return replace(config, memory=replace(config.memory, **memory), cache=replace(config.cache, **cache))


def build(config: ModelConfig, seed: int = 0) -> SegmentModel:
    """A model in evaluation mode whose parameters are all random: none is zero, one or alike another."""
    model = SegmentModel(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            gain = 1.0 if name.endswith("norm.weight") else 0.0
            parameter.copy_(gain + 0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def random_tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def random_segments(count: int = 3, length: int = LENGTH, batch: int = 2, seed: int = 0) -> list[Tensor]:
    return list(random_tokens(count, batch, length, seed=seed).unbind(0))


def run(model: SegmentModel, segments: list[Tensor], checkpoint: bool = False) -> list[Output]:
    """All segments from the initial state, the state carried with its gradient."""
    return list(unroll(model, segments, model.initial_state(segments[0].shape[0]), checkpoint))


def influence(model: SegmentModel, count: int = 3, length: int = LENGTH) -> Tensor:
    """How much each token changes each place's logits, (T, T): row p, column q is what token p does at q.

    One batch does it: its row 0 is the original, its row 1 + p has another token in place p.
    """
    total = count * length
    tokens = random_tokens(total).repeat(1 + total, 1)
    tokens[1:] = (tokens[1:] + torch.eye(total, dtype=torch.long)) % VOCABULARY
    with torch.no_grad():
        logits = torch.cat([output.logits for output in run(model, list(tokens.split(length, dim=1)))], dim=1)
    return (logits[1:] - logits[0]).abs().amax(dim=-1)


def functional(*tensors: Tensor) -> Tensor:
    """A fixed random linear functional of all tensors together, so that a gradient speaks for all of them."""
    generator = torch.Generator().manual_seed(1)
    return sum((tensor * torch.randn(tensor.shape, generator=generator)).sum() for tensor in tensors)


def gradients(loss: Tensor, model: SegmentModel) -> dict[str, Tensor]:
    """The gradient of every parameter, zeros where the loss does not depend on it."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(names, found, strict=True))


def carried(state: State) -> list[Tensor]:
    """What memory hands on, of whatever kind."""
    return [tensor for name, tensor in state.named().items() if name.startswith("memory")]


def row_of(state: State, row: int) -> State:
    """The state of one row."""
    return state.map(lambda tensor: tensor[row : row + 1])


def assert_same(actual: object, expected: object, tolerance: float = 1e-12) -> None:
    """Equal tensors, or mappings and sequences of them, to `tolerance` absolutely and relatively."""
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def assert_same_gradients(actual: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Equal gradients, not all zero."""
    assert any(gradient.any() for gradient in expected.values())
    assert_same(actual, expected, tolerance=1e-12)


def assert_same_state(actual: State, expected: State) -> None:
    """Equal memory, equal number of cached rows, and equal rows where the cache is valid."""
    assert torch.equal(actual.cached, expected.cached)
    assert_same(dict(actual.carried), dict(expected.carried))
    assert len(actual.cache) == len(expected.cache)
    for mine, theirs in zip(actual.cache, expected.cache, strict=True):
        for row, count in enumerate(expected.cached.tolist()):
            start = mine.shape[1] - count
            assert_same(mine[row, start:], theirs[row, start:])
