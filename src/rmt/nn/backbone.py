"""A stack of Transformer layers that attends to a past it is given and never heard of segments."""

# B batch · Q queries · K keys · C past rows · N layers · D width

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

from torch import Tensor, nn

from rmt.nn.attention import Attend, Attention, KeyValue, fused
from rmt.nn.axis import Axis
from rmt.nn.layer import Layer
from rmt.nn.positions import SCHEMES


class BackboneOutput(NamedTuple):
    """What the stack made of its input."""

    hidden: Tensor  # (B, Q, D)
    layer_inputs: tuple[Tensor, ...]  # N × (B, Q, D)
    seen: tuple[KeyValue, ...]  # N × keys and values of all K rows: the past of what comes next
    weights: tuple[Tensor, ...]  # N × (B, H, Q, K), empty tensors under `fused`


class Around(Protocol):
    """What happens around the layers, by their numbers."""

    def before(self, layer: int, hidden: Tensor) -> Tensor: ...

    def after(self, layer: int, hidden: Tensor) -> None: ...


class Backbone(nn.Module):
    """H^N = Transformer(H^0): dropout, N layers, a final norm where the layers are pre-norm, dropout."""

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        head_width: int,
        inner_width: int,
        norm: str,
        positions: str,
        dropout: float,
    ):
        super().__init__()
        scheme, scheme_layer = SCHEMES[positions]
        self.positions = scheme(width, heads, head_width, dropout)
        self.layers = nn.ModuleList(
            Layer(
                Attention(width, heads, head_width, scheme_layer(width, heads, head_width)),
                width,
                inner_width,
                norm,
                dropout,
            )
            for _ in range(layers)
        )
        self.final_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        axis: Axis,
        cache: tuple[Tensor, ...] = (),
        past: tuple[KeyValue, ...] = (),
        attend: Attend = fused,
        last: int | None = None,
        around: Around | None = None,
    ) -> BackboneOutput:
        """Encode x (B, Q, D) after a past given as layer inputs (`cache`) or as keys and values (`past`).

        With `last`, only so many rows at the end come out of the last layer. `around` sees and changes what
        goes into each layer, and sees what comes out.
        """
        layers, table = cast(Sequence[Layer], self.layers), self.positions(axis)
        if not past:
            past = tuple(layer.remember(h, table) for layer, h in zip(layers, cache, strict=True))
        x = self.dropout(x)
        inputs, seen, maps = [], [], []
        for number, (layer, kept) in enumerate(zip(layers, past, strict=True)):
            if around is not None:
                x = around.before(number, x)
            inputs.append(x)
            if last is not None and last < x.shape[1] and layer is layers[-1]:
                known, x = x.split([x.shape[1] - last, last], dim=1)
                kept = kept.append(layer.remember(known, table, kept.key.shape[-2]))
                axis = axis._replace(mask=axis.mask[..., known.shape[1] :, :])
                table = self.positions(axis)
            x, rows, weights = layer(x, kept, table, axis.mask, attend)
            if around is not None:
                around.after(number, x)
            seen.append(rows)
            maps.append(weights)
        return BackboneOutput(self.dropout(self.final_norm(x)), tuple(inputs), tuple(seen), tuple(maps))
