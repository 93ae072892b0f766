"""The key axis of one attention call: where its rows stand and who may look at whom."""

# B batch · Q queries · K keys

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Axis(NamedTuple):
    """K keys in a row; the last Q of them are also the queries."""

    positions: Tensor  # (K,) contiguous, one for all rows; or (B, K), row by row
    mask: Tensor  # (Q, K) or (B, 1, Q, K), True = visible
    present: Tensor  # (B,) how many of the K keys exist
