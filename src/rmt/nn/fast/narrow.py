"""What is behind attention, for layers so narrow that a few rows go through all of it at once.

Each function is what `rmt.nn.fast.encode` writes as products and `rmt.nn.fast.rowwise`, in one kernel.
"""

# S seeds · N rows · D width · P = H·E heads side by side · F inner width

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor

from rmt.nn.fast import narrow_tiles
from rmt.nn.fast.look import Kept, by_seed
from rmt.nn.fast.prepared import Prepared


def tile(rows: int, width: int) -> dict[str, int]:
    """The sizes of a tile; where rows are few, so are those of a program, for there are many processors."""
    height, piece = (16, 128) if rows <= 2048 else (32, 128) if rows <= 16384 else (64, 64)
    return {"BR": height, "BD": max(16, triton.next_power_of_2(width)), "BC": piece, "num_warps": 4}


def shared(x: Tensor, above: Tensor | None, prepared: Prepared) -> tuple[tuple[int, int], dict[str, int]]:
    """Programs that share rows x (S, N, D), and what they know of sizes; `above` is (S, B, T, D)."""
    seeds, height, padded = x.shape
    batch, last = (1, height) if above is None else above.shape[1:3]
    chosen = tile(seeds * height, padded)
    chosen["num_warps"] = max(4, chosen["BR"] // 8)  # a tall tile fills the registers of four
    tiles, room = triton.cdiv(height, chosen["BR"]), prepared.norm_sums.shape[2]
    chosen |= {"W": prepared.sizes.width, "D": padded, "P": prepared.out[0].shape[-1]}
    chosen |= {"height": height, "length": height // batch, "last": last, "tiles": tiles, "room": room}
    return (min(tiles, room), seeds), chosen


def finish(
    attended: Tensor, x: Tensor, prepared: Prepared, layer: int, dtype: torch.dtype, keeps: bool
) -> tuple[Tensor | None, ...]:
    """Rows (S · B, T, H, E) that attention found, and the residual x (S, N, D), to the end of a layer.

    Returns `rmt.nn.fast.encode.Finished`: moments are not kept, and the output is also what is carried on.
    """
    seeds, padded, hidden, number = prepared.seeds, prepared.width, prepared.inner, 2 * layer + 1
    many, last, heads = attended.flatten(2).shape
    height = many // seeds * last
    middle, total = x.new_empty(seeds, height, padded), x.new_empty(seeds, height, padded)
    ends = layer + 1 == prepared.sizes.layers
    second, inner = (one.room(layer, height, keeps) for one in (prepared.up, prepared.down))
    normal = torch.empty_like(middle, dtype=dtype) if ends else prepared.qkv.room(layer + 1, height, keeps)
    projected = None if ends else attended.new_empty(seeds, height, 3 * heads)
    chosen = tile(seeds * height, padded)
    narrow_tiles.finish_kernel[(triton.cdiv(height, chosen["BR"]), seeds)](
        attended, x, prepared.out[layer], prepared.gains[number], prepared.shifts[number],
        prepared.up[layer], prepared.up_bias[layer], prepared.down[layer], prepared.down_bias[layer],
        prepared.gains[number + 1], prepared.shifts[number + 1], prepared.qkv[layer if ends else layer + 1],
        middle, second, inner, total, normal, projected,
        height, x.shape[1] * seeds // many, last,
        prepared.sizes.width, padded, heads, hidden, HAS_NEXT=not ends, **chosen,
    )  # fmt: skip
    return middle, None, second, inner, total, None, normal, total, projected


def finish_gradient(back: tuple[Any, ...], kept: Kept, prepared: Prepared, layer: int) -> tuple[Tensor, ...]:
    """Back from behind a layer to what attention found.

    Returns the gradients of the layer's output (for products), of the inner rows, of the middle (twice: as a
    sum, and for products) and of what attention found.
    """
    (come, x, _, above), number, after = back, 2 * layer + 1, layer + 1
    middle, inner, final = kept.middle, kept.inner, after == prepared.sizes.layers
    mixed = by_seed(kept.attended, prepared).flatten(2)
    half = prepared.down.gradients.beside(layer, inner)
    to_inner = prepared.up.gradients.beside(layer, kept.second)
    to_half, to_middle = prepared.out.gradients.beside(layer, mixed), torch.empty_like(middle)
    to_attended = inner.new_empty(*inner.shape[:2], prepared.out[layer].shape[-1])
    grid, sizes = shared(x, above, prepared)
    narrow_tiles.finish_gradient_kernel[grid](
        come, x, above, prepared.qkv[layer if final else after], prepared.gains[number + 1],
        inner, middle, prepared.gains[number], prepared.up[layer], prepared.down[layer], prepared.out[layer],
        half, to_inner, to_middle, to_half, to_attended,
        prepared.norm_sums[number + 1], prepared.up_sums[layer], prepared.norm_sums[number],
        F=prepared.inner, FINAL=final, **sizes,
    )  # fmt: skip
    return half, to_inner, to_middle, to_half, to_attended


def begin_gradient(back: tuple[Any, ...], prepared: Prepared) -> Tensor:
    """Back from the first layer's projected rows to its input."""
    come, x, _, above = back
    to_x = torch.empty_like(x)
    grid, sizes = shared(x, above, prepared)
    narrow_tiles.begin_gradient_kernel[grid](
        come, x, above, prepared.qkv[0], prepared.gains[0], to_x, prepared.norm_sums[0], **sizes
    )
    return to_x
