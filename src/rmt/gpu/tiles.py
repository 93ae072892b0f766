"""Sizes of tiles, warps and stages that kernels run with: measured on one card, to be measured on others."""

from __future__ import annotations

from copy import deepcopy

# rows, queries, keys, columns: sizes of a tile; warps of 32 threads; stages of loads ahead of their use
TILES: dict[str, dict[str, int]] = {
    "attention": {"queries": 64, "keys": 32, "warps": 4, "short_warps": 2, "key_gradient_stages": 2},
    "short_attention": {"rows": 64, "warps": 4, "short_warps": 2},
    "biased_queries": {"rows": 32},
    "biased_queries_gradient": {"rows": 64},
    "aligned": {"rows": 32, "columns": 64},
    "rotate": {"rows": 32},
    "norm": {"elements": 2048, "warps": 4},
    "norm_gradient": {"elements": 2048, "rows": 8, "warps": 2, "wide_warps": 8},
    "dropout": {"elements": 1024},
    "relu": {"rows": 32, "columns": 128},
    "relu_gradient": {"rows": 64, "columns": 128},
    "relu_product": {"rows": 128, "columns": 128, "depth": 64, "group": 8, "warps": 4, "stages": 2},
    "cross_entropy": {"elements": 4096, "rows": 64, "warps": 4, "wide_warps": 8},
    # rows of a tile, and columns of a matrix at a time, for up to 2,048 rows, up to 16,384, and more
    "fused_layer_few": {"below": 2049, "rows": 16, "columns": 128},
    "fused_layer_some": {"below": 16385, "rows": 32, "columns": 128},
    "fused_layer": {"rows": 64, "columns": 64, "warps": 4},
}
DEFAULTS = deepcopy(TILES)  # as measured on an NVIDIA H200; TILES may be a card's own (`rmt bench --tune`)
SMALLEST = 16  # rows, keys or columns that a tensor core multiplies


def block(size: int) -> int:
    """The power of two that a tile needs along an axis."""
    return max(SMALLEST, 1 << (size - 1).bit_length())


def attention_rows(keys: int) -> int:
    """Queries of a tile: all, where there are few."""
    return min(TILES["attention"]["queries"], block(keys))


def padded(size: int, step: int = 16) -> int:
    """The next multiple of what products and loads want; 16 numbers in bfloat16 are a sector of 32 bytes."""
    return size + -size % step
