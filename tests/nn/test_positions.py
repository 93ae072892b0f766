"""Position schemes against formulas written pair by pair."""

# B batch · H heads · Q queries · K keys · E head width · D width

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rmt.nn.axis import Axis
from rmt.nn.positions import Relative, RelativeLayer, Rotary, RotaryLayer, WrappedRelativeLayer, shift

BATCH, HEADS, QUERIES, KEYS, HEAD_WIDTH, WIDTH = 2, 2, 4, 6, 4, 8
IN_A_ROW = torch.arange(KEYS)
ROW_BY_ROW = torch.tensor([[0, 1, 2, 2, 2, 3], [0, 1, 1, 2, 3, 4]])  # two keys of each row take no place
PLACES = pytest.mark.parametrize(
    "positions", [pytest.param(IN_A_ROW, id="in-a-row"), pytest.param(ROW_BY_ROW, id="row-by-row")]
)


def axis(positions: Tensor, keys: int = KEYS) -> Axis:
    """An axis where everyone sees everyone: positions must be right for every pair."""
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    return Axis(positions, mask, torch.full((BATCH,), keys))


def relative(layer: type[RelativeLayer]) -> tuple[Relative, RelativeLayer, Tensor]:
    """Random parameters and a random query (B, H, Q, E)."""
    torch.manual_seed(0)
    scheme, part = Relative(WIDTH, HEADS, HEAD_WIDTH, dropout=0.0), layer(WIDTH, HEADS, HEAD_WIDTH)
    for parameter in (*scheme.parameters(), *part.parameters()):
        torch.nn.init.normal_(parameter)
    return scheme, part, torch.randn(BATCH, HEADS, QUERIES, HEAD_WIDTH, requires_grad=True)


def term(scheme: Relative, layer: RelativeLayer, query: Tensor, head: int, distance: int) -> Tensor:
    """(q + v)·r(distance) / sqrt(E) for one query vector (E,)."""
    angles = [distance * 10000 ** (-2 * t / WIDTH) for t in range(WIDTH // 2)]
    wave = torch.tensor([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])
    r = (layer.project.weight @ wave).unflatten(0, (HEADS, HEAD_WIDTH))[head]
    return (query + scheme.position_bias[head]) @ r / math.sqrt(HEAD_WIDTH)


def pair_by_pair(score: Callable[[int, int, int, int], Tensor]) -> Tensor:
    """The table (B, H, Q, K) of score(b, h, i, j)."""
    ranges = (range(BATCH), range(HEADS), range(QUERIES), range(KEYS))
    scores = [score(b, h, i, j) for b in ranges[0] for h in ranges[1] for i in ranges[2] for j in ranges[3]]
    return torch.stack(scores).view(BATCH, HEADS, QUERIES, KEYS)


def relative_pairs(scheme: Relative, layer: RelativeLayer, query: Tensor, positions: Tensor) -> Tensor:
    place = positions.expand(BATCH, KEYS).tolist()

    def score(b: int, h: int, i: int, j: int) -> Tensor:
        return term(scheme, layer, query[b, h, i], h, place[b][KEYS - QUERIES + i] - place[b][j])

    return pair_by_pair(score)


def wrapped_pairs(scheme: Relative, layer: RelativeLayer, query: Tensor, keys: int) -> Tensor:
    """The original code's scores: e + 1 places behind a query stands what the next gives to keys - e."""

    def score(b: int, h: int, i: int, j: int) -> Tensor:
        distance = KEYS - QUERIES + i - j
        if distance >= 0:
            return term(scheme, layer, query[b, h, i], h, distance)
        if distance == -1:
            return torch.zeros(())
        return term(scheme, layer, query[b, h, i + 1], h, keys + distance + 1)

    return pair_by_pair(score)


def assert_same_gradients(actual: Tensor, expected: Tensor, inputs: list[Tensor]) -> None:
    weights = torch.randn(actual.shape)
    mine, theirs = (torch.autograd.grad((scores * weights).sum(), inputs) for scores in (actual, expected))
    assert all(gradient.abs().max() > 0 for gradient in theirs)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("spare", [0, 3])
def test_shift_moves_every_row_to_where_its_distances_belong(spare):
    scores = torch.randn(BATCH, QUERIES, KEYS + QUERIES + 1 + spare)
    shifted = shift(scores, KEYS)
    assert shifted.shape == (BATCH, QUERIES, KEYS)
    for i in range(QUERIES):
        for j in range(KEYS):
            assert torch.equal(shifted[:, i, j], scores[:, i, j + QUERIES - 1 - i])


@PLACES
def test_relative_positions_are_the_formula_pair_by_pair(positions):
    scheme, layer, query = relative(RelativeLayer)
    actual = layer.bias(query, scheme(axis(positions)))
    expected = relative_pairs(scheme, layer, query, positions)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@PLACES
def test_relative_positions_have_the_gradients_of_the_formula_pair_by_pair(positions):
    scheme, layer, query = relative(RelativeLayer)
    actual = layer.bias(query, scheme(axis(positions)))
    expected = relative_pairs(scheme, layer, query, positions)
    assert_same_gradients(actual, expected, [query, scheme.position_bias, layer.project.weight])


@pytest.mark.parametrize("keys", [KEYS, KEYS - 1], ids=["all-keys-there", "one-key-missing"])
def test_wrapped_relative_positions_are_the_original_formula_pair_by_pair(keys):
    scheme, layer, query = relative(WrappedRelativeLayer)
    actual = layer.bias(query, scheme(axis(IN_A_ROW, keys)))
    expected = wrapped_pairs(scheme, layer, query, keys)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_wrapped_relative_positions_have_the_gradients_of_the_original_formula():
    scheme, layer, query = relative(WrappedRelativeLayer)
    actual = layer.bias(query, scheme(axis(IN_A_ROW)))
    expected = wrapped_pairs(scheme, layer, query, KEYS)
    assert_same_gradients(actual, expected, [query, scheme.position_bias, layer.project.weight])


@PLACES
def test_rotary_scores_are_those_of_vectors_turned_by_their_distance(positions):
    torch.manual_seed(0)
    query, key = torch.randn(BATCH, HEADS, QUERIES, HEAD_WIDTH), torch.randn(BATCH, HEADS, KEYS, HEAD_WIDTH)
    layer, table = (
        RotaryLayer(WIDTH, HEADS, HEAD_WIDTH),
        Rotary(WIDTH, HEADS, HEAD_WIDTH, 0.0)(axis(positions)),
    )
    actual = layer.query(query, table) @ layer.key(key, table, slice(0, KEYS)).transpose(-1, -2)
    place = positions.expand(BATCH, KEYS).tolist()

    def score(b: int, h: int, i: int, j: int) -> Tensor:
        distance, half = place[b][KEYS - QUERIES + i] - place[b][j], HEAD_WIDTH // 2
        q, k, total = query[b, h, i], key[b, h, j], torch.zeros(())
        for t in range(half):
            angle = distance * 10000 ** (-2 * t / HEAD_WIDTH)
            total = total + math.cos(angle) * (q[t] * k[t] + q[t + half] * k[t + half])
            total = total + math.sin(angle) * (q[t] * k[t + half] - q[t + half] * k[t])
        return total

    torch.testing.assert_close(actual, pair_by_pair(score), rtol=1e-12, atol=1e-12)
