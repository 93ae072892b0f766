"""The fast backbone's products, with what follows them where one kernel can do both."""

# S seeds · N rows · D width · F inner width

from __future__ import annotations

import torch
from torch import Tensor

from rmt.nn.fast.rowwise import relu, relu_gradient, tiled
from rmt.nn.heads import KERNELS

if KERNELS:
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    from rmt.nn.fast.product_tiles import relu_gradient_product_kernel

HOPPER = 9  # the first GPUs that move whole tiles by themselves
TILE = (128, 128, 64)  # rows, columns, depth


def product(x: Tensor, matrix: Tensor) -> Tensor:
    """x matrixᵀ for every seed."""
    return x @ matrix.mT


def added(total: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """total + x matrixᵀ for every seed, in place."""
    if len(x) == 1:
        total[0].addmm_(x[0], matrix[0].mT)
        return total
    return total.baddbmm_(x, matrix.mT)


def rectified(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """max(0, x matrixᵀ + bias) for every seed."""
    if len(x) == 1 and tiled(x):
        return torch._addmm_activation(bias[0], x[0], matrix[0].mT).unsqueeze(0)
    return relu(product(x, matrix), bias)


def rectified_back(gradient: Tensor, matrix: Tensor, inner: Tensor, sums: Tensor) -> Tensor:
    """gradient matrix (S, N, F) where `inner` is positive; its sums over rows go to `sums` (S, blocks, F)."""
    if not moves_tiles(gradient) or len(gradient) > 1 or gradient.shape[1] > TILE[0] * sums.shape[1]:
        return relu_gradient(gradient @ matrix, inner, sums)
    found = torch.empty_like(inner)
    relu_gradient_product(gradient[0], matrix[0], inner[0], found[0], sums[0])
    return found


def moves_tiles(x: Tensor) -> bool:
    """Whether the kernel below suits the machine and the number format."""
    return tiled(x) and x.element_size() == 2 and torch.cuda.get_device_capability(x.device)[0] >= HOPPER


def relu_gradient_product(left: Tensor, right: Tensor, inner: Tensor, found: Tensor, sums: Tensor) -> None:
    """found = left right where inner > 0; sums over rows are added to `sums`, a tile's to its own row."""
    (rows, depth), columns = left.shape, right.shape[1]
    high, broad, deep = TILE
    given = ((left, [high, deep]), (right, [deep, broad]), (inner, [high, broad]), (found, [high, broad]))
    grid = (triton.cdiv(rows, high) * triton.cdiv(columns, broad),)
    relu_gradient_product_kernel[grid](
        *(TensorDescriptor.from_tensor(*one) for one in given), sums, rows, columns, depth,
        BN=high, BF=broad, BD=deep, GROUP=8, num_warps=4, num_stages=2,
    )  # fmt: skip
