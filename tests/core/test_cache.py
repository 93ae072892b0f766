"""The cache keeps the last inputs of every layer, of tokens or of all positions."""

import pytest
import torch
from torch import Tensor

from rmt.core.cache import Cache
from rmt.core.config import CacheConfig
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.errors import ConfigError

SPANS = Spans(cache=5, read=1, tokens=3, write=1)
ALL = None
NOTHING = 0


def rows(*numbers: int) -> Tensor:
    """One batch row of numbered hidden states of width 1."""
    return torch.tensor(numbers, dtype=torch.float64)[None, :, None]


def pushes(cache: Cache, *valid: Tensor) -> list[tuple[list[float], int]]:
    """The cached numbers after each segment: segment 1 has rows 10 … 14, segment 2 rows 20 … 24."""
    state, seen = State(rows(), (rows(*[NOTHING] * cache.rows),), torch.tensor([0])), []
    for number, exists in enumerate(valid, start=1):
        inputs = (rows(*range(10 * number, 10 * number + 5)),)
        state = State(rows(), *cache.push(state, inputs, SPANS, exists))
        count = int(state.cached)
        seen.append((state.cache[0].flatten().tolist()[cache.rows - count :], count))
    return seen


@pytest.mark.parametrize(
    ("scope", "first", "second"),
    [
        pytest.param("tokens", [11, 12, 13], [12, 13, 21, 22, 23], id="tokens-only"),
        pytest.param("all", [10, 11, 12, 13, 14], [20, 21, 22, 23, 24], id="all-positions"),
    ],
)
def test_the_cache_holds_the_last_rows_of_its_scope_in_order(scope, first, second):
    cache = Cache(CacheConfig(size=5, scope=scope))
    assert pushes(cache, ALL, ALL) == [(first, len(first)), (second, len(second))]


@pytest.mark.parametrize(
    ("scope", "first", "second"),
    [
        pytest.param("tokens", [11], [11, 22, 23], id="tokens-only"),
        pytest.param("all", [10, 11, 14], [14, 20, 22, 23, 24], id="all-positions"),
    ],
)
def test_padding_is_never_cached(scope, first, second):
    right, left = torch.tensor([[True, False, False]]), torch.tensor([[False, True, True]])
    cache = Cache(CacheConfig(size=5, scope=scope))
    assert pushes(cache, right, left) == [(first, len(first)), (second, len(second))]


def test_a_sink_keeps_the_first_rows_of_a_sequence_and_the_last():
    cache = Cache(CacheConfig(size=3, sink=2))
    kept = [[11, 12, 13], [11, 12, 21, 22, 23], [11, 12, 31, 32, 33]]
    assert pushes(cache, ALL, ALL, ALL) == [(numbers, len(numbers)) for numbers in kept]


def test_padding_is_no_part_of_a_sink():
    nobody, right, left = (
        torch.tensor([[*row]]) for row in ([False] * 3, [True, False, False], [False, True, True])
    )
    kept = [[], [21], [21, 32, 33], [21, 32, 33, 41], [21, 32, 41, 52, 53]]
    cache = Cache(CacheConfig(size=3, sink=2))
    assert pushes(cache, nobody, right, left, right, left) == [(numbers, len(numbers)) for numbers in kept]


def test_a_sink_without_a_cache_is_refused():
    with pytest.raises(ConfigError, match=r"cache\.sink=2 has no effect without cache\.size"):
        CacheConfig(sink=2)


def test_a_cache_of_size_zero_keeps_nothing():
    assert pushes(Cache(CacheConfig(size=0)), ALL, ALL) == [([], 0), ([], 0)]


def test_every_layer_caches_its_own_inputs():
    cache = Cache(CacheConfig(size=3))
    empty = State(rows(), (rows(0, 0, 0), rows(0, 0, 0)), torch.tensor([0]))
    kept, _ = cache.push(empty, (rows(0, 1, 2, 3, 4), rows(5, 6, 7, 8, 9)), SPANS, ALL)
    assert [layer.flatten().tolist() for layer in kept] == [[1, 2, 3], [6, 7, 8]]
