"""The layers' parameters as products want them, and where the gradients of an update gather.

Once per update they are cast, with widths filled up to what suits a GPU; zeros change nothing but the time.
Gradients of matrices grow in float32 as products are added to them, over all segments of an update; those of
vectors as sums over rows, block by block.
"""

# S seeds · W distances · D width · F inner width · H heads · E head width; all but H and W filled up

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.axis import Axis
from rmt.nn.fast.banks import Bank, Matrices, wide
from rmt.nn.fast.gradients import Gradients, exact
from rmt.nn.fast.rowwise import tiled
from rmt.nn.heads import KERNELS
from rmt.nn.positions import Relative, Rotary

if KERNELS:
    from rmt.nn import kernel

NARROW = 128  # width up to which a program takes rows through a whole layer
BLOCKS, FEW = 528, 256  # programs that share rows, alone or beside others for other columns


class Sizes(NamedTuple):
    """A backbone's true sizes."""

    layers: int
    width: int
    heads: int
    head_width: int
    inner_width: int
    positions: str


class Distances(NamedTuple):
    """What relative positions are in one update."""

    rows: Tensor  # (W, D) sinusoids
    projected: Tensor  # (layers, H · S, W, E)
    gradients: Gradients  # of `projected`


class Prepared:
    """A backbone's parameters, or those of S stacked ones, ready for an update or for reading."""

    def __init__(
        self,
        backbone: Any,
        dtype: torch.dtype,
        parameters: Mapping[str, Tensor],
        learns: bool,
        most: int,
    ):
        """`parameters` by their names in the backbone; stacked ones are (S, …).

        At `most` so many numbers of factors wait to be multiplied, of each kind of matrix.
        """
        self.backbone, self.dtype = backbone, dtype
        self.sizes: Sizes = backbone.sizes
        layers, width, heads, head, inner, positions = self.sizes
        self.learns, self.most = learns, most
        parts = 1 if positions == "relative" else 2  # rotary positions turn two halves of a head
        apart, room = (parts, head // parts), (parts, wide(head // parts, 16 // parts))
        D, E, F_ = self.width, self.head, self.inner = wide(width), math.prod(room), wide(inner)

        def each(name: str) -> list[Tensor]:
            return [parameters[f"layers.{layer}.{name}"] for layer in range(layers)]

        def norms(name: str) -> list[Tensor]:
            inside = zip(each(f"attention_norm.{name}"), each(f"feed_forward_norm.{name}"), strict=True)
            return [one for pair in inside for one in pair] + [parameters[f"final_norm.{name}"]]

        self.gains = Bank(norms("weight"), (width,), (D,), exact(dtype))
        self.shifts = Bank(norms("bias"), (width,), (D,), exact(dtype))
        self.qkv = Matrices(
            each("attention.qkv.weight"),
            (3 * heads, *apart, width),
            (3 * heads, *room, D),
            3 * heads * E,
            dtype,
        )
        self.out = Matrices(each("attention.out.weight"), (width, heads, *apart), (D, heads, *room), D, dtype)
        self.up = Matrices(each("feed_forward.0.weight"), (inner, width), (F_, D), F_, dtype)
        self.up_bias = Bank(each("feed_forward.0.bias"), (inner,), (F_,), dtype)
        self.down = Matrices(each("feed_forward.3.weight"), (width, inner), (D, F_), D, dtype)
        self.down_bias = Bank(each("feed_forward.3.bias"), (width,), (D,), exact(dtype))
        self.banks = [self.gains, self.shifts, self.qkv, self.out]
        self.banks += [self.up, self.up_bias, self.down, self.down_bias]
        self.seeds = self.gains.seeds
        self.relative = positions == "relative"
        if self.relative:
            each_project = each("attention.positions.project.weight")
            self.project = Bank(each_project, (heads, head, width), (heads, E, D), dtype)
            own = [parameters[f"positions.{name}_bias"] for name in ("content", "position")]
            self.biases = Bank(own, (heads, head), (heads, E), exact(dtype))
            self.banks += [self.project, self.biases]
        self.narrow = max(D, heads * E // 4, F_ // 4) <= NARROW
        self.stream = exact(dtype) if self.narrow else dtype  # of residuals; wide ones take time to move
        self.make_room()
        self.tables: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        self.axes: dict[tuple[int, ...], Axis] = {}
        self.seen: dict[tuple[int, int], Any] = {}
        self.distances: dict[tuple[int, int], Distances] = {}

    def make_room(self) -> None:
        """For gradients: of matrices, and sums over rows, each block by its own program."""
        for matrices in (self.qkv, self.out, self.up, self.down):
            matrices.make_room(self.learns, self.most)
        like, layers, seeds = self.gains.stored, self.sizes.layers, self.seeds
        blocks = max(64, min(BLOCKS, 2**18 // self.width) // seeds) if self.learns else 0
        few = max(8, FEW // seeds) if self.learns else 0
        self.norm_sums = like.new_zeros(2 * layers + 1, seeds, blocks, 3, self.width)
        self.up_sums = like.new_zeros(layers, seeds, blocks if self.narrow else few, self.inner)
        self.bias_sums = like.new_zeros(layers, seeds, few, 2, self.sizes.heads, self.head)
        self.biases_near: dict[int, Tensor] = {}

    def __enter__(self) -> Prepared:
        """Take over all parameters and serve the backbone."""
        self.refresh()
        self.backbone.prepared = self
        return self

    def __exit__(self, *error: object) -> None:
        self.backbone.prepared = None

    def refresh(self) -> None:
        """Take over all parameters, and begin with gradients of zero."""
        cast: list[tuple[Tensor, Tensor]] = []  # all at once
        for bank in self.banks:
            if bank.stored.dtype == bank.parameters[0].dtype:
                bank.stored[bank.inside] = torch.stack(bank.values())
            else:
                cast += zip((place[bank.inside] for place in bank.stored), bank.values(), strict=True)
        if cast:
            torch._foreach_copy_(*map(list, zip(*cast, strict=True)))
        for matrices in (self.qkv, self.out, self.up, self.down):
            matrices.gradients.forget()
        for sums in (self.norm_sums, self.up_sums, self.bias_sums, *self.biases_near.values()):
            sums.zero_()
        self.distances = {}

    def deliver(self) -> None:
        """Hand every parameter its gradient."""
        for matrices in (self.qkv, self.out, self.up, self.down):
            matrices.deliver(matrices.gradients.sums())
        gain, shift, added = self.norm_sums.sum(2).unbind(2)
        self.gains.deliver(gain)
        self.shifts.deliver(shift)
        self.down_bias.deliver(added[2::2])  # what comes in front of a norm and behind a layer
        self.up_bias.deliver(self.up_sums.sum(2))
        if self.relative:
            found = sum(sums.sum((0, 2)) for sums in (self.bias_sums, *self.biases_near.values()))
            self.biases.deliver(found.transpose(0, 1))
            for one in self.distances.values():
                heads, seeds = self.sizes.heads, self.seeds
                gradient = one.gradients.sums().unflatten(1, (heads, seeds)).permute(0, 2, 1, 4, 3)
                self.project.deliver(gradient @ one.rows.to(gradient.dtype))
        self.distances = {}

    def near_sums(self, segments: int) -> Tensor:
        """Room for the gradients of position biases by segment, (layers, S, B, 2, H, E)."""
        if segments not in self.biases_near:
            layers, seeds, _, *rest = self.bias_sums.shape
            self.biases_near[segments] = self.bias_sums.new_zeros(layers, seeds, segments // seeds, *rest)
        return self.biases_near[segments]

    def at_once(self, x: Tensor) -> bool:
        """Whether one kernel takes rows from attention to attention."""
        return self.narrow and tiled(x)

    def norm(self, number: int) -> tuple[Tensor, Tensor]:
        """Gain and shift of a layer norm: two of every layer, and the final one."""
        return self.gains[number], self.shifts[number]

    def table(self, axis: Axis) -> tuple[Tensor, ...]:
        """Sinusoids (W, D) of distances, or cosines and sines (K, E / 2) of places: always the same."""
        shape = queries, keys = axis.mask.shape[-2:]
        if shape not in self.tables:
            with torch.inference_mode(False), torch.no_grad():
                self.tables[queries, keys] = self.sinusoids(axis)
        return self.tables[queries, keys]

    def axis(self, spans: tuple[int, ...], make: Callable[[], Axis]) -> Axis:
        """The axis of these spans: made once, and kept as long as recordings may read it."""
        if spans not in self.axes:
            with torch.inference_mode(False), torch.no_grad():
                positions, mask, _ = make()
                self.axes[spans] = Axis(positions, mask, positions[:0])  # no layer asks how many are present
        return self.axes[spans]

    def bounds(self, mask: Tensor) -> Any:
        """The bounds of a mask (Q, K): always the same for a shape."""
        queries, keys = mask.shape
        if not tiled(mask):
            return None
        if (queries, keys) not in self.seen:
            with torch.inference_mode(False):
                self.seen[queries, keys] = kernel.bounds(mask, self.head)
        return self.seen[queries, keys]

    def sinusoids(self, axis: Axis) -> tuple[Tensor, ...]:
        device, scheme = axis.mask.device, Relative if self.relative else Rotary
        made = scheme(self.sizes.width, 1, self.sizes.head_width, 0.0).to(device, self.gains.stored.dtype)(
            axis
        )
        if self.relative:
            return (F.pad(made.rows, (0, self.width - self.sizes.width)).to(self.dtype),)
        half = self.sizes.head_width // 2
        cosine, sine = (F.pad(one[:, :half], (0, self.head // 2 - half)) for one in made)
        return cosine.contiguous(), sine.contiguous()

    def projected(self, axis: Axis) -> Distances:
        """Relative positions of this update."""
        shape = queries, keys = axis.mask.shape[-2:]
        if shape not in self.distances:
            (rows,) = self.table(axis)
            flat = rows @ self.project.stored.flatten(0, -2).mT  # (W, layers · S · H · E)
            layers, seeds, heads, width, _ = self.project.stored.shape
            projected = flat.view(-1, layers, seeds, heads, width).permute(1, 3, 2, 0, 4).flatten(1, 2)
            gradients = Gradients(projected if self.learns else projected[:0], exact(self.dtype), self.most)
            self.distances[queries, keys] = Distances(rows, projected.contiguous(), gradients)
        return self.distances[queries, keys]
