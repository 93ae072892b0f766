"""A backbone's parameters as products want them, and where their gradients gather in an update.

Once per update they are cast, in widths that suit a GPU: zeros fill them up and change nothing but the time.
Gradients of matrices are sums of products, those of vectors sums over rows, block by block: each program of a
kernel adds to a block of its own, so that sums have the same order every time.
"""

# S seeds · D width · F inner width · H heads · E head width; D, F and E padded

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

import torch
from torch import Tensor

from rmt.core.config import ModelConfig
from rmt.gpu.distances import RelativeDistances
from rmt.gpu.norms import Norm
from rmt.gpu.padding import PaddedMatrices, PaddedParameters
from rmt.gpu.settings import EngineSettings
from rmt.gpu.shapes import ShapeTables
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import sum_format

MAX_FLOAT32_SPAN = 128  # of pre-norm layers with residuals in float32: launches bound them, not the memory
# programs that share the rows of a kernel: four for each of an H200's 132 processors, or about half as many
# beside programs for other columns
ROW_BLOCKS, FEW_ROW_BLOCKS = 528, 256
MIN_ROW_BLOCKS, MIN_FEW_ROW_BLOCKS = 64, 8  # of each seed, however many are stacked
MAX_BLOCK_ELEMENTS = 2**18  # of one vector's sums, so that adding the blocks up stays cheap


class FastParameters:
    """The parameters of a backbone, or of S stacked ones."""

    def __init__(self, config: ModelConfig, parameters: Mapping[str, Tensor], settings: EngineSettings):
        """`parameters` by their names in the backbone; stacked ones are (S, …)."""
        self.config, self.settings = config, settings
        dtype, operations = settings.dtype, settings.operations
        self.dtype, self.operations = dtype, operations
        self.is_relative, self.is_post = config.positions == "relative", config.norm == "post"
        self.halves = 1 if self.is_relative else 2  # rotary positions rotate halves of a head: each is padded
        half = padded(config.head_width // self.halves, 16 // self.halves)
        self.width, self.inner, self.head = (
            padded(config.width),
            padded(config.inner_width),
            self.halves * half,
        )
        self.store(parameters)
        self.seeds, device = self.gains.seeds, self.gains.stored.device
        # what a kernel that fuses a layer has to hold; of heads and inner columns it has a part at a time
        span = max(self.width, config.heads * self.head // 4, self.inner // 4)
        self.is_fused = span * dtype.itemsize <= operations.max_fused_bytes(device)
        # residuals of wide layers take time to move, so they are in the format of products
        self.residual_dtype = sum_format(dtype) if span <= MAX_FLOAT32_SPAN else dtype
        self.dropout_keys = torch.zeros(self.seeds, 2, dtype=torch.long, device=device)
        self.tables = ShapeTables(config, self.width, self.head, dtype, device)
        if self.is_relative:
            self.distances = RelativeDistances(self.project, self.tables, settings)
        self.make_gradients()

    def store(self, parameters: Mapping[str, Tensor]) -> None:
        """Parameters by kind, layer after layer."""
        config, dtype, exact = self.config, self.dtype, sum_format(self.dtype)
        heads, head, width, inner = config.heads, config.head_width, config.width, config.inner_width
        D, E, F = self.width, self.head, self.inner
        parts, room = (self.halves, head // self.halves), (self.halves, E // self.halves)

        def each(name: str) -> list[Tensor]:
            return [parameters[f"layers.{layer}.{name}"] for layer in range(config.layers)]

        def norms(name: str) -> list[Tensor]:
            pairs = zip(each(f"attention_norm.{name}"), each(f"feed_forward_norm.{name}"), strict=True)
            inside = [norm for pair in pairs for norm in pair]
            return inside if self.is_post else [*inside, parameters[f"final_norm.{name}"]]

        self.gains = PaddedParameters(norms("weight"), (width,), (D,), exact)
        self.shifts = PaddedParameters(norms("bias"), (width,), (D,), exact)
        qkv, out = each("attention.qkv.weight"), each("attention.out.weight")
        self.qkv = PaddedMatrices(qkv, (3 * heads, *parts, width), (3 * heads, *room, D), D, dtype)
        self.out = PaddedMatrices(out, (width, heads, *parts), (D, heads, *room), heads * E, dtype)
        self.up = PaddedMatrices(each("feed_forward.0.weight"), (inner, width), (F, D), D, dtype)
        self.down = PaddedMatrices(each("feed_forward.3.weight"), (width, inner), (D, F), F, dtype)
        self.up_bias = PaddedParameters(each("feed_forward.0.bias"), (inner,), (F,), dtype)
        self.down_bias = PaddedParameters(each("feed_forward.3.bias"), (width,), (D,), exact)
        self.matrices = (self.qkv, self.out, self.up, self.down)
        self.kinds = [self.gains, self.shifts, self.up_bias, self.down_bias, *self.matrices]
        if self.is_relative:
            project = each("attention.positions.project.weight")
            self.project = PaddedParameters(project, (heads, head, width), (heads, E, D), dtype)
            biases = [parameters[f"positions.{name}_bias"] for name in ("content", "position")]
            self.biases = PaddedParameters(biases, (heads, head), (heads, E), exact)
            self.kinds += [self.project, self.biases]

    def make_gradients(self) -> None:
        """Room for products, and for sums over rows: (layers or norms, S, blocks, …)."""
        learns, max_waiting = self.settings.learns, self.settings.max_waiting
        for matrices in self.matrices:
            matrices.make_gradients(learns, max_waiting)
        like, layers, seeds = self.gains.stored, self.config.layers, self.seeds
        blocks = max(MIN_ROW_BLOCKS, min(ROW_BLOCKS, MAX_BLOCK_ELEMENTS // self.width) // seeds)
        few = max(MIN_FEW_ROW_BLOCKS, FEW_ROW_BLOCKS // seeds)
        blocks, few = (blocks, few) if learns else (0, 0)
        self.norm_sums = like.new_zeros(2 * layers + 1, seeds, blocks, 3, self.width)
        cached = layers if self.config.cache.size else 0
        self.cache_sums = like.new_zeros(cached, seeds, blocks, 3, self.width)
        self.up_sums = like.new_zeros(layers, seeds, blocks if self.is_fused else few, self.inner)
        relative_layers = layers if self.is_relative else 0
        self.bias_sums = like.new_zeros(relative_layers, seeds, few, 2, self.config.heads, self.head)
        self.short_sums: dict[int, Tensor] = {}  # the same of `short_attention`, by the size of the batch

    def begin(self, segments: int) -> None:
        """Take over all parameters as they are now, with gradients of zero, for so many segments."""
        casts: list[Tensor] = []  # where those go that are cast, all at once
        values: list[Tensor] = []
        for kind in self.kinds:
            if kind.stored.dtype == kind.parameters[0].dtype:
                kind.unpadded[:] = torch.stack(kind.values())
            else:
                casts += kind.unpadded.unbind(0)
                values += kind.values()
        if casts:
            torch._foreach_copy_(casts, values)
        for matrices in self.matrices:
            matrices.begin()
        biases = (self.bias_sums, *self.short_sums.values())
        for sums in (self.norm_sums, self.cache_sums, self.up_sums, *biases):
            sums.zero_()
        if self.is_relative:
            self.distances.begin(segments)

    def deliver(self) -> None:
        """Hand every parameter its gradient."""
        for matrices in self.matrices:
            matrices.deliver(matrices.gradients.finish())
        norm_sums = summed(self.norm_sums)
        if len(self.cache_sums) and not self.is_post:
            norm_sums[:-1:2, :, :2] += summed(self.cache_sums)[:, :, :2]
        gain, shift, branch = norm_sums.unbind(2)
        first = 1 if self.is_post else 0  # norm 0 is that of the first layer's input, which post-norm has not
        self.gains.deliver(gain[first:])
        self.shifts.deliver(shift[first:])
        self.down_bias.deliver(branch[2::2])
        self.up_bias.deliver(summed(self.up_sums))
        if self.is_relative:
            parts = [summed(sums).sum(0) for sums in (self.bias_sums, *self.short_sums.values())]
            self.biases.deliver(torch.stack(parts).sum(0).transpose(0, 1))
            self.distances.deliver()

    def norm(self, number: int) -> Norm:
        """Layer norm `number`: 0 of the first layer's input, then two of every layer; post-norm has no 0."""
        stored = number - 1 if self.is_post else number
        gain, shift = self.gains[stored], self.shifts[stored]
        return Norm(gain, shift, self.norm_sums[number], self.config.width, self.dtype, self.is_post)

    def cache_norm(self, layer: int) -> Norm:
        """The norm in front of a pre-norm layer, for its cached rows, which no branch was added to."""
        return self.norm(2 * layer)._replace(sums=self.cache_sums[layer])

    def short_bias_sums(self, batch: int) -> Tensor:
        """Room for the gradients of position biases, row by row of the batch: (layers, S, B, 2, H, E)."""
        if batch not in self.short_sums:
            layers, seeds, _, *rest = self.bias_sums.shape
            self.short_sums[batch] = self.bias_sums.new_zeros(layers, seeds, batch // seeds, *rest)
        return self.short_sums[batch]


def summed(blocks: Tensor) -> Tensor:
    """Sums over blocks, (layers, S, blocks, …) -> (layers, S, …); one step would not fill a GPU, two do."""
    count = blocks.shape[2]
    groups = max(size for size in range(1, isqrt(count) + 1) if count % size == 0) if count else 1
    return blocks.unflatten(2, (groups, -1)).sum(3).sum(2)
