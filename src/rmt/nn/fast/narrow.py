"""What is behind attention, for layers so narrow that a few rows go through all of it at once.

Each function is what `rmt.nn.fast.encode` writes as products and `rmt.nn.fast.rowwise`, in one kernel.
"""

# S seeds · N rows · D width · P = H·E heads side by side · F inner width

from __future__ import annotations

import torch
import triton
from torch import Tensor

from rmt.nn.fast import narrow_tiles
from rmt.nn.fast.prepared import Prepared


def tile(rows: int, width: int) -> dict[str, int]:
    """The sizes of a tile; where rows are few, so are those of a program, for there are many processors."""
    height = 16 if rows <= 2048 else 32 if rows <= 16384 else 64
    return {"BR": height, "BD": max(16, triton.next_power_of_2(width)), "BC": 64, "num_warps": 4}


def finish(
    attended: Tensor, x: Tensor, prepared: Prepared, layer: int, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Rows (S, N, P) that attention found, and the residual x (S, N, D), to the end of a layer.

    Returns what a layer keeps behind attention, its output, and the norm of that in `dtype`.
    """
    (seeds, height, padded), hidden, number = x.shape, prepared.inner, 2 * layer + 1
    middle, total = torch.empty_like(x), torch.empty_like(x)
    second, normal = torch.empty_like(x, dtype=attended.dtype), torch.empty_like(x, dtype=dtype)
    inner = attended.new_empty(seeds, height, hidden)
    chosen = tile(seeds * height, padded)
    narrow_tiles.finish_kernel[(triton.cdiv(height, chosen["BR"]), seeds)](
        attended, x, prepared.out[layer], prepared.gains[number], prepared.shifts[number],
        prepared.up[layer], prepared.up_bias[layer], prepared.down[layer], prepared.down_bias[layer],
        prepared.gains[number + 1], prepared.shifts[number + 1], middle, second, inner, total, normal,
        height, prepared.sizes.width, padded, attended.shape[-1], hidden, **chosen,
    )  # fmt: skip
    return middle, second, inner, total, normal


def finish_gradient(
    above: Tensor, half: Tensor, kept: tuple[Tensor, Tensor], prepared: Prepared, layer: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Back from a layer's output to what attention found; `kept` are the middle and the inner rows.

    Returns the gradients of the inner rows, of the middle (twice: as a sum, and for products) and of what
    attention found.
    """
    (middle, inner), number = kept, 2 * layer + 1
    (seeds, height, padded), hidden, heads = middle.shape, prepared.inner, prepared.out[layer].shape[-1]
    sums, up_sums = prepared.norm_sums[number], prepared.up_sums[layer]
    chosen = tile(seeds * height, padded)
    tiles = triton.cdiv(height, chosen["BR"])
    to_inner, to_middle, to_half = torch.empty_like(inner), torch.empty_like(middle), torch.empty_like(half)
    to_attended = half.new_empty(seeds, height, heads)
    narrow_tiles.finish_gradient_kernel[(min(tiles, sums.shape[1], up_sums.shape[1]), seeds)](
        above, half, inner, middle, prepared.gains[number],
        prepared.up[layer], prepared.down[layer], prepared.out[layer],
        to_inner, to_middle, to_half, to_attended, up_sums, sums,
        height, prepared.sizes.width, padded, heads, hidden, tiles, up_sums.shape[1], sums.shape[1], **chosen,
    )  # fmt: skip
    return to_inner, to_middle, to_half, to_attended
