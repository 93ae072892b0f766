"""The kernels whose tiles can be measured, each on shapes of the paper's models."""

# N segments · T rows of a segment · H heads · E head width · S seeds · D width · F inner width · W distances

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rmt.bench.tune import Constants, TunedKernel, combinations
from rmt.core import presets
from rmt.core.model import SegmentModel
from rmt.gpu.dropout import Drop
from rmt.gpu.engine import Engine
from rmt.gpu.heads import HeadGradients, Heads, Seen, seen_of
from rmt.gpu.kernels import operations as kernels
from rmt.gpu.kernels.products import relu_gradient_product
from rmt.gpu.kernels.rows import relu, relu_gradient
from rmt.gpu.norms import Branch, Norm
from rmt.gpu.tiles import attention_rows

HALF = torch.bfloat16
SEGMENTS, ROWS, HEADS, HEAD_WIDTH, WIDTH, INNER, CLASSES = 64, 148, 8, 64, 512, 2048, 208  # enwik8's model
DISTANCES = 152  # of 148 rows and as many keys, of which none behind a query is seen; padded
BLOCKS = 264  # of sums over rows


def tunable() -> list[TunedKernel]:
    """All kernels that take constants from the table."""
    rows, columns = (16, 32, 64, 128), (32, 64, 128)
    return [
        kernel("attention", attention, queries=(32, 64, 128), keys=(16, 32, 64), warps=(4, 8)),
        kernel("short_attention", segment(128, 24), warps=(2, 4, 8), short_warps=(1, 2, 4)),
        kernel("biased_queries", biased_queries, rows=rows),
        kernel("biased_queries_gradient", biased_queries_gradient, rows=rows),
        kernel("aligned", aligned, rows=(16, 32, 64), columns=columns),
        kernel("rotate", rotate, rows=rows),
        kernel("norm", add_norm, elements=(1024, 2048, 4096), warps=(2, 4, 8)),
        kernel("norm_gradient", norm_gradient, elements=(1024, 2048, 4096), rows=(2, 4, 8), warps=(1, 2, 4)),
        kernel("dropout", dropout, elements=(512, 1024, 2048, 4096)),
        kernel("relu", rectified, rows=(16, 32, 64), columns=(64, 128, 256)),
        kernel("relu_gradient", rectified_gradient, rows=(32, 64, 128), columns=(64, 128, 256)),
        kernel("relu_product", product, rows=(128,), columns=(128, 256), depth=(64,), stages=(2, 3, 4)),
        kernel("cross_entropy", cross_entropy, elements=(2048, 4096, 8192), rows=(16, 64), warps=(4, 8)),
        kernel("fused_layer_few", segment(32, 36), rows=(16, 32), columns=(64, 128)),
        kernel("fused_layer_some", segment(128, 24), rows=(16, 32, 64), columns=(64, 128)),
        kernel("fused_layer", segment(1024, 24), rows=(32, 64, 128), columns=(32, 64), warps=(4, 8)),
    ]


def kernel(name: str, build: Callable[[], Callable[[], Tensor]], **choices: tuple[int, ...]) -> TunedKernel:
    """A kernel with all combinations of some choices; its tensors are made when it is first run."""
    candidates: list[Constants] = combinations(**choices)
    prepared: list[Callable[[], Tensor]] = []

    def run() -> Tensor:
        if not prepared:
            torch.manual_seed(0)
            prepared.append(build())
        return prepared[0]()

    return TunedKernel(name, candidates, run)


def numbers(*shape: int, dtype: torch.dtype = HALF) -> Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def causal() -> Seen:
    position = torch.arange(ROWS, device="cuda")
    return seen_of(position[:, None] >= position, cache=False)


def attention() -> Callable[[], Tensor]:
    """Forward and backward, with the scores of distances."""
    qkv, to_qkv = (numbers(SEGMENTS, ROWS, 3, HEADS, HEAD_WIDTH) for _ in range(2))
    bias, output, to_output = numbers(SEGMENTS, HEADS, ROWS, 160), *numbers(2, *qkv[:, :, 0].shape)
    query, key, value = qkv.unbind(2)
    heads = Heads(query, key, value, bias, causal(), HEAD_WIDTH**-0.5)
    query, key, value = to_qkv.unbind(2)
    gradients = HeadGradients(query, key, value, torch.empty_like(bias))
    by_rows = {heads.seen.rows: heads}  # of a tile

    def run() -> Tensor:
        rows = attention_rows(ROWS)
        if rows not in by_rows:
            by_rows[rows] = heads._replace(seen=causal())
        lse = kernels.attention(by_rows[rows], output)
        kernels.attention_gradient(by_rows[rows], to_output, output, lse, gradients)
        return to_qkv

    return run


def biased_queries() -> Callable[[], Tensor]:
    query, biases = numbers(SEGMENTS, ROWS, HEADS, HEAD_WIDTH), position_biases()
    return lambda: kernels.biased_queries(query, biases, 0.125).position


def biased_queries_gradient() -> Callable[[], Tensor]:
    query, position = numbers(SEGMENTS, ROWS, HEADS, HEAD_WIDTH), numbers(HEADS, SEGMENTS, ROWS, HEAD_WIDTH)
    sums = numbers(1, BLOCKS, 2, HEADS, HEAD_WIDTH, dtype=torch.float32)

    def run() -> Tensor:
        sums.zero_()
        kernels.biased_queries_gradient(query.clone(), position, sums, 0.125)
        return sums.sum(1)

    return run


def position_biases() -> Tensor:
    return numbers(2, 1, HEADS, HEAD_WIDTH, dtype=torch.float32)


def aligned() -> Callable[[], Tensor]:
    scores, seen = numbers(HEADS, SEGMENTS, ROWS, DISTANCES), causal()
    return lambda: kernels.aligned_gradient(kernels.aligned(scores, seen), DISTANCES, seen)


def rotate() -> Callable[[], Tensor]:
    heads, angles = numbers(SEGMENTS, ROWS, 2 * HEADS, HEAD_WIDTH), numbers(2, ROWS, HEAD_WIDTH // 2)

    def run() -> Tensor:
        rotated = heads.clone()
        kernels.rotate(rotated, *angles.float())
        return rotated

    return run


def norm_parameters() -> Norm:
    gain, shift = numbers(2, 1, WIDTH, dtype=torch.float32)
    sums = torch.zeros(1, 2 * BLOCKS, 3, WIDTH, device="cuda")
    return Norm(gain, shift, sums, WIDTH, HALF, is_post=False)


def add_norm() -> Callable[[], Tensor]:
    residual, branch, normal = numbers(3, 1, SEGMENTS * ROWS, WIDTH)
    norm, bias = norm_parameters(), numbers(1, WIDTH, dtype=torch.float32)
    return lambda: kernels.add_norm(residual, Branch(branch, bias, None), norm, normal).normal


def norm_gradient() -> Callable[[], Tensor]:
    gradient, to_residual, total, normal = numbers(4, 1, SEGMENTS * ROWS, WIDTH)
    norm = norm_parameters()
    normed = kernels.norm(total, norm, normal)
    return lambda: kernels.norm_gradient(gradient, to_residual, normed, norm, None)[0]


def dropout() -> Callable[[], Tensor]:
    rows, drop = numbers(1, SEGMENTS * ROWS, WIDTH), Drop(torch.ones(1, 2, device="cuda").long(), 0.1, 3)
    return lambda: kernels.dropout(rows, drop)


def rectified() -> Callable[[], Tensor]:
    inner, bias = numbers(1, SEGMENTS * ROWS, INNER), numbers(1, INNER)
    return lambda: relu(inner.clone(), bias, None)


def rectified_gradient() -> Callable[[], Tensor]:
    gradient, inner = numbers(2, 1, SEGMENTS * ROWS, INNER)
    sums = torch.zeros(1, BLOCKS, INNER, device="cuda")
    return lambda: relu_gradient(gradient.clone(), inner, sums, 1.0)


def product() -> Callable[[], Tensor]:
    left, right = numbers(SEGMENTS * ROWS, WIDTH), numbers(WIDTH, INNER)
    inner = numbers(SEGMENTS * ROWS, INNER)
    result, sums = torch.empty_like(inner), torch.zeros(BLOCKS, INNER, device="cuda")

    def run() -> Tensor:
        relu_gradient_product(left, right, inner, result, sums, 1.0)
        return result

    return run


def cross_entropy() -> Callable[[], Tensor]:
    scores = numbers(1, SEGMENTS * ROWS, CLASSES)
    targets = torch.randint(CLASSES - 4, (1, SEGMENTS * ROWS), device="cuda")
    return lambda: kernels.cross_entropy(scores, targets, CLASSES - 4, True)[1]


def segment(batch: int, rows: int) -> Callable[[], Callable[[], Tensor]]:
    """A segment of copy's model, forward and backward: its layers are fused, its attention is short."""

    def build() -> Callable[[], Tensor]:
        sizes: dict[str, Any] = {"layers": 4, "heads": 4, "head_width": 32, "width": 128, "inner_width": 512}
        model = SegmentModel(presets.rmt(rows // 3, vocabulary=12, **sizes)).cuda()
        engine = Engine(model, HALF)
        tokens = torch.randint(12, (batch, rows - 2 * (rows // 3)), device="cuda")

        def run() -> Tensor:
            engine.begin()
            state = model.initial_state(batch)
            output = engine.model(tokens, state, targets=tokens)
            assert output.losses is not None
            output.losses.sum().backward()
            return output.losses.detach()

        return run

    return build
