"""What kernels and twins are compared on: spans of segments, masks, caches that are not full, numbers."""

# S seeds · N segments · T queries · K keys · H heads · E head width · W distances

from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.spans import Spans
from rmt.gpu.heads import Heads, Seen, seen_of
from rmt.gpu.shapes import distances_seen
from rmt.nn.positions import shift

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS, BATCH, HEADS = 2, 2, 2
DOUBLE = torch.float64
HALF = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # the interpreter has no products of bfloat16
PRECISIONS = pytest.mark.parametrize("dtype", [torch.float32, HALF], ids=["single", "half"])


class Case(NamedTuple):
    """A segment: its spans, who sees the cache, how many queries there are, how wide a head is."""

    spans: Spans
    memory_sees_cache: bool = False
    last: int = 0  # only the last queries ask; 0 for all
    width: int = 16

    def __str__(self) -> str:
        sees = "-memory-sees-cache" if self.memory_sees_cache else ""
        last = f"-last{self.last}" if self.last else ""
        return "-".join(map(str, self.spans)) + f"-of-{self.width}{sees}{last}"

    @property
    def queries(self) -> int:
        return self.last or self.spans.queries

    @property
    def keys(self) -> int:
        return self.spans.keys

    @property
    def mask(self) -> Tensor:
        return self.spans.mask(self.memory_sees_cache, device=torch.device(DEVICE))[-self.queries :]

    @property
    def columns(self) -> int:
        """Distances, as many as some query sees a key at."""
        return distances_seen(self.mask)

    def aligned(self, scores: Tensor) -> Tensor:
        """Scores (…, T, W) of distances at their keys (…, T, K), as the plain model puts them there."""
        return shift(F.pad(scores, (0, self.queries + self.keys + 1 - self.columns)), self.keys)

    def seen(self) -> Seen:
        """With a cache, another number of its keys is missing in each segment: all of them, some, none."""
        spans = self.spans
        seen = seen_of(self.mask, cache=spans.cache > 0)
        if spans.cache == 0:
            return seen
        missing = torch.tensor([spans.cache, 0, spans.cache // 2, 1], device=DEVICE)
        return seen._replace(missing=missing.int())

    def heads(self, dtype: torch.dtype, biased: bool) -> Heads:
        """Queries, keys and values as views of projected rows; a bias by heads first, with spare columns."""
        torch.manual_seed(0)
        rows = numbers(dtype, SEEDS * BATCH, self.keys, 3, HEADS, self.width)
        query, key, value = rows.unbind(2)
        bias = numbers(dtype, HEADS, len(rows), self.queries, self.keys + 3).transpose(0, 1)
        query = query[:, self.keys - self.queries :]
        return Heads(query, key, value, bias if biased else None, self.seen(), self.width**-0.5)


# no memory; a write block only; memory at both ends; a cache that memory sees or not; few queries
SMALL = [
    Case(Spans(0, 0, 5, 0)),
    Case(Spans(0, 3, 14, 3), width=10),
    Case(Spans(0, 3, 14, 3), last=3),
    Case(Spans(9, 3, 8, 3)),
    Case(Spans(9, 3, 8, 3), memory_sees_cache=True),
    Case(Spans(9, 0, 8, 2), last=5),
]
# more than a tile: of keys only, of both, a tile of keys that only some segments have
LARGE = [
    Case(Spans(0, 5, 62, 5)),
    Case(Spans(20, 5, 90, 5), width=41),
    Case(Spans(70, 5, 60, 5)),
    Case(Spans(70, 5, 60, 5), memory_sees_cache=True, width=32),
    Case(Spans(150, 5, 20, 5), last=5),
    Case(Spans(0, 10, 128, 10), last=10),
    Case(Spans(64, 4, 56, 4)),
]
CASES = [pytest.param(case, id=str(case)) for case in SMALL]
CASES += [pytest.param(case, id=str(case), marks=pytest.mark.slow) for case in LARGE]


def numbers(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=DOUBLE).to(dtype)


def poison(like: Tensor) -> Tensor:
    """Memory that nobody has written to."""
    return torch.full_like(like, torch.nan)


def assert_same(results: tuple[Tensor, ...], expected: tuple[Tensor, ...], dtype: torch.dtype) -> None:
    """Equal to the precision of the kernels, measured by the largest number."""
    exact = 1e-5 if DEVICE == "cpu" else 5e-3  # a GPU multiplies float32 as TF32
    tolerance = exact if dtype == torch.float32 else 2e-2
    for result, other in zip(results, expected, strict=True):
        scale = float(other.abs().max()) or 1.0
        torch.testing.assert_close(
            result.double() / scale, other.double() / scale, rtol=tolerance, atol=tolerance
        )
