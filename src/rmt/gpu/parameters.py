"""A backbone's parameters as products want them, and where their gradients gather in an update.

Once per update they are cast, in widths that suit a GPU: zeros fill them up and change nothing but the time.
Gradients of matrices are sums of products, those of vectors sums over rows, block by block: each program of a
kernel adds to a block of its own, so that sums have the same order every time.
"""

# S seeds · D width · F inner width · H heads · E head width; all but S and H padded

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.config import ModelConfig
from rmt.gpu.distances import Distances, SegmentDistances, project_distances
from rmt.gpu.dropout import DISTANCES, Dropout
from rmt.gpu.heads import Seen, seen_of
from rmt.gpu.norms import Norm
from rmt.gpu.padding import PaddedMatrices, PaddedParameters
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import sum_format
from rmt.nn.axis import Axis
from rmt.nn.positions import Relative, Rotary

MAX_EXACT_WIDTH = 128  # of layers whose residuals are kept in float32: latency bounds them, not the memory
# programs that share the rows of a kernel: four for each of an H200's 132 processors, or half as many beside
# programs for other columns
ROW_BLOCKS, FEW_ROW_BLOCKS = 528, 256
MAX_BLOCK_ELEMENTS = 2**18  # of one vector's sums, so that adding the blocks up stays cheap


class EngineSettings(NamedTuple):
    """How an engine computes."""

    dtype: torch.dtype  # of products
    operations: ModuleType  # `rmt.gpu.kernels.operations`, or `rmt.gpu.naive`
    learns: bool  # whether gradients are needed
    max_waiting: int  # elements of factors that may wait until an update ends


class FastParameters:
    """The parameters of a backbone, or of S stacked ones."""

    def __init__(
        self,
        config: ModelConfig,
        parameters: Mapping[str, Tensor],
        settings: EngineSettings,
    ):
        """`parameters` by their names in the backbone; stacked ones are (S, …)."""
        self.config, self.settings = config, settings
        dtype, operations = settings.dtype, settings.operations
        self.dtype, self.operations = dtype, operations
        self.is_relative, self.is_post = config.positions == "relative", config.norm == "post"
        halves = 1 if self.is_relative else 2  # rotary positions rotate one half of a head against the other
        heads, head, inner, width = config.heads, config.head_width, config.inner_width, config.width
        parts, room = (halves, head // halves), (halves, padded(head // halves, 16 // halves))
        self.width, self.head, self.inner = padded(width), math.prod(room), padded(inner)
        D, E, inner_room = self.width, self.head, self.inner
        layers = range(config.layers)

        def each(name: str) -> list[Tensor]:
            return [parameters[f"layers.{layer}.{name}"] for layer in layers]

        def norms(name: str) -> list[Tensor]:
            pairs = zip(each(f"attention_norm.{name}"), each(f"feed_forward_norm.{name}"), strict=True)
            inside = [norm for pair in pairs for norm in pair]
            return inside if self.is_post else [*inside, parameters[f"final_norm.{name}"]]

        exact = sum_format(dtype)
        self.gains = PaddedParameters(norms("weight"), (width,), (D,), exact)
        self.shifts = PaddedParameters(norms("bias"), (width,), (D,), exact)
        qkv, out = each("attention.qkv.weight"), each("attention.out.weight")
        self.qkv = PaddedMatrices(qkv, (3 * heads, *parts, width), (3 * heads, *room, D), D, dtype)
        self.out = PaddedMatrices(out, (width, heads, *parts), (D, heads, *room), heads * E, dtype)
        up, down = each("feed_forward.0.weight"), each("feed_forward.3.weight")
        self.up = PaddedMatrices(up, (inner, width), (inner_room, D), D, dtype)
        self.down = PaddedMatrices(down, (width, inner), (D, inner_room), inner_room, dtype)
        self.up_bias = PaddedParameters(each("feed_forward.0.bias"), (inner,), (inner_room,), dtype)
        self.down_bias = PaddedParameters(each("feed_forward.3.bias"), (width,), (D,), exact)
        self.matrices = (self.qkv, self.out, self.up, self.down)
        self.groups: list[PaddedParameters] = [self.gains, self.shifts, self.up_bias, self.down_bias]
        self.groups += self.matrices
        if self.is_relative:
            project = each("attention.positions.project.weight")
            self.project = PaddedParameters(project, (heads, head, width), (heads, E, D), dtype)
            biases = [parameters[f"positions.{name}_bias"] for name in ("content", "position")]
            self.biases = PaddedParameters(biases, (heads, head), (heads, E), exact)
            self.groups += [self.project, self.biases]
        self.seeds = self.gains.seeds
        span = max(D, heads * E // 4, inner_room // 4)  # what a kernel that fuses a layer has to hold
        self.is_fused = span * dtype.itemsize <= operations.MAX_FUSED_BYTES
        # residuals of wide layers take time to move, so they are in the format of products
        self.stream = exact if span <= MAX_EXACT_WIDTH else dtype
        self.keys = torch.zeros(self.seeds, 2, dtype=torch.long, device=self.gains.stored.device)
        self.make_gradients()
        self.tables: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        self.seen: dict[tuple[int, ...], Seen] = {}
        self.axes: dict[tuple[int, ...], Axis] = {}
        self.segments = 0  # of an update, as far as it is known
        self.forget_distances()

    def make_gradients(self) -> None:
        """Room for products, and for sums over rows."""
        learns, max_waiting = self.settings.learns, self.settings.max_waiting
        for matrices in self.matrices:
            matrices.make_gradients(learns, max_waiting)
        like, layers, seeds = self.gains.stored, self.config.layers, self.seeds
        blocks = max(64, min(ROW_BLOCKS, MAX_BLOCK_ELEMENTS // self.width) // seeds) if learns else 0
        few = max(8, FEW_ROW_BLOCKS // seeds) if learns else 0
        self.norm_sums = like.new_zeros(2 * layers + 1, seeds, blocks, 3, self.width)
        cached = layers if self.config.cache.size else 0
        self.cache_sums = like.new_zeros(cached, seeds, blocks, 3, self.width)
        self.up_sums = like.new_zeros(layers, seeds, blocks if self.is_fused else few, self.inner)
        self.bias_sums = like.new_zeros(layers, seeds, few, 2, self.config.heads, self.head)
        self.short_sums: dict[int, Tensor] = {}

    def begin(self, segments: int) -> None:
        """Take over all parameters as they are now, with gradients of zero, for so many segments."""
        self.segments = segments
        stored: list[Tensor] = []  # all that are cast, at once
        values: list[Tensor] = []
        for group in self.groups:
            if group.stored.dtype == group.parameters[0].dtype:
                group.unpadded[:] = torch.stack(group.values())
            else:
                stored += group.unpadded.unbind(0)
                values += group.values()
        if stored:
            torch._foreach_copy_(stored, values)
        for matrices in self.matrices:
            matrices.gradients.begin()
        for sums in (
            self.norm_sums,
            self.cache_sums,
            self.up_sums,
            self.bias_sums,
            *self.short_sums.values(),
        ):
            sums.zero_()
        self.forget_distances()

    def deliver(self) -> None:
        """Hand every parameter its gradient."""
        for matrices in self.matrices:
            matrices.deliver(matrices.gradients.finish())
        norm_sums = self.norm_sums.sum(2)
        if len(self.cache_sums) and not self.is_post:
            norm_sums[:-1:2, :, :2] += self.cache_sums.sum(2)[:, :, :2]
        gain, shift, branch = norm_sums.unbind(2)
        first = 1 if self.is_post else 0  # norm 0 is that of the first layer's input, which post-norm has not
        self.gains.deliver(gain[first:])
        self.shifts.deliver(shift[first:])
        self.down_bias.deliver(branch[2::2])
        self.up_bias.deliver(self.up_sums.sum(2))
        if self.is_relative:
            parts = [sums.sum((0, 2)) for sums in (self.bias_sums, *self.short_sums.values())]
            self.biases.deliver(torch.stack(parts).sum(0).transpose(0, 1))
            for distances in self.all_distances:
                self.project.deliver(distances.projection_gradient())

    def forget_distances(self) -> None:
        """Relative positions are projected anew in every update."""
        self.distances: dict[tuple[int, ...], SegmentDistances] = {}
        self.all_distances: list[Distances] = []

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

    def axis(self, spans: tuple[int, ...], build: Callable[[], Axis]) -> Axis:
        """The axis of some spans: built once, and kept as long as recordings may use it."""
        if spans not in self.axes:
            with torch.inference_mode(False), torch.no_grad():
                self.axes[spans] = build()
        return self.axes[spans]

    def seen_by(self, mask: Tensor, cache: int) -> Seen:
        """What the queries of a mask (T, K) see, behind `cache` rows; always the same for a shape."""
        key = (*mask.shape, cache)
        if key not in self.seen:
            with torch.inference_mode(False):
                self.seen[key] = seen_of(mask, cache > 0)
        return self.seen[key]

    def table(self, axis: Axis) -> tuple[Tensor, ...]:
        """Sinusoids (W, D) of distances, or cosines and sines (K, E / 2) of positions: always the same."""
        queries, keys = axis.mask.shape[-2:]
        if (queries, keys) not in self.tables:
            with torch.inference_mode(False), torch.no_grad():
                self.tables[queries, keys] = self.sinusoids(axis)
        return self.tables[queries, keys]

    def sinusoids(self, axis: Axis) -> tuple[Tensor, ...]:
        """The plain model's tables, padded."""
        like, config = self.gains.stored, self.config
        scheme: Any = Relative if self.is_relative else Rotary
        table = scheme(config.width, 1, config.head_width, 0.0).to(like.device, like.dtype)(axis)
        if self.is_relative:
            return (F.pad(table.rows, (0, self.width - config.width)).to(self.dtype),)
        half = config.head_width // 2
        cosine, sine = (F.pad(angles[:, :half], (0, self.head // 2 - half)) for angles in table)
        return cosine.contiguous(), sine.contiguous()

    def projected_distances(self, axis: Axis, dropout: Dropout) -> SegmentDistances:
        """Relative positions as the layers see them, of this update; with dropout, of this segment."""
        segment = dropout.segment if dropout.probability else 0
        shape = (*axis.mask.shape[-2:],)
        if (*shape, segment) not in self.distances:
            stop = self.segments if dropout.probability else 0
            self.project_segments(axis, dropout, range(segment, max(stop, segment + 1)))
        return self.distances[*shape, segment]

    def project_segments(self, axis: Axis, dropout: Dropout, numbers: range) -> None:
        """Relative positions of segments in a row, each with the mask of its own."""
        (table,) = self.table(axis)
        rows, drop = table.expand(self.seeds, len(numbers), -1, -1), dropout.at(DISTANCES)
        if drop is not None:
            rows = self.operations.dropout(rows, drop, len(numbers))
        learns, max_waiting = self.settings.learns, self.settings.max_waiting
        projected = project_distances(rows, self.project.stored, learns, max_waiting)
        self.all_distances.append(projected)
        for index, number in enumerate(numbers):
            self.distances[*axis.mask.shape[-2:], number] = SegmentDistances(projected, index)
