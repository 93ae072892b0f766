"""Products with what follows them, where one kernel can do both."""

# S seeds · N rows · D width · F inner width · BLOCK_N, BLOCK_F, BLOCK_D rows, columns and depth of a tile

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from rmt.gpu.dropout import Drop
from rmt.gpu.kernels.rows import relu, relu_gradient
from rmt.gpu.tiles import TILES

HOPPER = 9  # compute capability of the first GPUs that move whole tiles by themselves


def up_relu(x: Tensor, matrix: Tensor, bias: Tensor, drop: Drop | None, inner: Tensor) -> Tensor:
    """dropout(max(0, x matrixᵀ + bias)), written to `inner` (S, N, F)."""
    if len(x) == 1 and drop is None and x.is_cuda:
        torch._addmm_activation(bias[0], x[0], matrix[0].mT, out=inner[0])
        return inner
    return relu(torch.matmul(x, matrix.mT, out=inner), bias, drop)


def relu_down_gradient(gradient: Tensor, matrix: Tensor, inner: Tensor, sums: Tensor, scale: float) -> Tensor:
    """scale · gradient matrix (S, N, F) where `inner` is positive.

    Its sums over rows go to `sums` (S, blocks, F).
    """
    seeds, rows, _ = gradient.shape
    if not moves_tiles(gradient) or seeds > 1 or rows > TILES["relu_product"]["rows"] * sums.shape[1]:
        return relu_gradient(gradient @ matrix, inner, sums, scale)
    to_inner = torch.empty_like(inner)
    relu_gradient_product(gradient[0], matrix[0], inner[0], to_inner[0], sums[0], scale)
    return to_inner


def moves_tiles(x: Tensor) -> bool:
    """Whether the kernel below suits the machine and the number format."""
    return x.is_cuda and x.element_size() == 2 and torch.cuda.get_device_capability(x.device)[0] >= HOPPER


def relu_gradient_product(
    left: Tensor, right: Tensor, inner: Tensor, result: Tensor, sums: Tensor, scale: float
) -> None:
    """result = scale · left right where inner > 0; a tile's sums over rows go to a row of `sums`."""
    (rows, depth), columns, table = left.shape, right.shape[1], TILES["relu_product"]
    N, F, D = table["rows"], table["columns"], table["depth"]
    tiles = ((left, [N, D]), (right, [D, F]), (inner, [N, F]), (result, [N, F]))
    grid = (triton.cdiv(rows, N) * triton.cdiv(columns, F),)
    relu_gradient_product_kernel[grid](
        *(TensorDescriptor.from_tensor(*tile) for tile in tiles), sums, rows, columns, depth,
        SCALE=scale, BLOCK_N=N, BLOCK_F=F, BLOCK_D=D, GROUP=table["group"],
        num_warps=table["warps"], num_stages=table["stages"],
    )  # fmt: skip


@triton.jit
def relu_gradient_product_kernel(
    left, right, inner, result, sums, rows, columns, depth,
    SCALE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """result = scale · left right where inner > 0, else zero; sums over rows go to (tiles of rows, F)."""
    program, tiles_n, tiles_f = tl.program_id(0), tl.cdiv(rows, BLOCK_N), tl.cdiv(columns, BLOCK_F)
    first_n = program // (GROUP * tiles_f) * GROUP  # GROUP tiles of rows find one of `right` in L2
    group_size, within = min(tiles_n - first_n, GROUP), program % (GROUP * tiles_f)
    tile_n, tile_f = first_n + within % group_size, within // group_size
    total = tl.zeros((BLOCK_N, BLOCK_F), tl.float32)
    for start in range(0, depth, BLOCK_D):
        total = tl.dot(left.load([tile_n * BLOCK_N, start]), right.load([start, tile_f * BLOCK_F]), total)
    kept = inner.load([tile_n * BLOCK_N, tile_f * BLOCK_F])
    value = tl.where(kept > 0, (total * SCALE).to(kept.dtype), 0.0)
    result.store([tile_n * BLOCK_N, tile_f * BLOCK_F], value)
    column = tile_f * BLOCK_F + tl.arange(0, BLOCK_F)
    pointer = sums + tile_n * columns + column  # no other tile adds to it
    tl.atomic_add(pointer, tl.sum(value.to(tl.float32), 0), mask=column < columns, sem="relaxed")
