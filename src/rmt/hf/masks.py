"""Who sees whom in a packed segment [read ∘ tokens ∘ write ∘ padding], in the form the backbone takes."""

# B batch · Q queries · K keys

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rmt.errors import ConfigError
from rmt.hf.families import Family, Layout

TOKEN, READ, WRITE = -1, 0, 1  # what stands at a place
DENSE = ("eager", "sdpa")  # attention that takes an additive mask (B, 1, Q, K)
UNMASKED = "rmt_unmasked"  # attention that knows by itself who sees whom, in a segment without padding


class PackedRows(Protocol):
    """A segment with its memory, as `rmt.hf.cell` packs it."""

    @property
    def embedded(self) -> Tensor: ...

    @property
    def exists(self) -> Tensor | None: ...

    @property
    def mask(self) -> Tensor: ...

    @property
    def positions(self) -> Tensor | None: ...


class SlidingWindow(NamedTuple):
    """How far tokens of a decoder see back, in all layers or in those of one type."""

    size: int  # places, a token's own included
    by_layer: bool

    def visible(self, visible: Tensor, distance: Tensor, memory: Tensor) -> Tensor:
        """What stays visible (B, Q, K): what is near, and memory, wherever it is or looks from."""
        return visible & ((distance < self.size) | memory)


def sliding_window_of(config: Any) -> SlidingWindow | None:
    """The window of a decoder's configuration, if it has one."""
    size, types = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    if not size or (types and "sliding_attention" not in types):
        return None
    return SlidingWindow(int(size), by_layer=bool(types))


def causal_blocks(kind: Tensor, exists: Tensor) -> Tensor:
    """Causal, plus each memory block sees itself whole: (B, Q), (B, Q) -> (B, Q, Q), True = visible."""
    position = torch.arange(kind.shape[1], device=kind.device)
    same = (kind[:, :, None] == kind[:, None]) & (kind[:, None] != TOKEN)
    return ((position <= position[:, None]) | same) & exists[:, None]


def window_or_memory(kind: Tensor, exists: Tensor, reach: int) -> Tensor:
    """Tokens see those at most `reach` away, and memory sees and is seen by all: (B, Q, Q)."""
    position = torch.arange(kind.shape[1], device=kind.device)
    near = (position - position[:, None]).abs() <= reach
    memory = (kind != TOKEN)[:, None] | (kind != TOKEN)[:, :, None]
    return (near | memory) & exists[:, None]


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, Q, K) bool -> (B, 1, Q, K): 0 where visible, the lowest number elsewhere.

    A bool mask would be added to the scores by eager attention, and hide nothing.
    """
    hidden = torch.finfo(dtype).min
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill(~visible, hidden)[
        :, None
    ]


def backbone_mask(config: Any, family: Family, layout: Layout, packed: PackedRows, kind: Tensor) -> Any:
    """The mask of a packed segment in the form that its backbone takes; `kind` (B or 1, Q) is what is where.

    Where attention takes it, a mask is (…, Q, K) already: of one that is (B, Q), transformers would find out
    whether it hides anything, and the host would wait for the device in every segment.
    """
    attention, exists = config._attn_implementation, packed.exists
    if attention.startswith(UNMASKED):
        return None
    present = torch.ones_like(kind, dtype=torch.bool) if exists is None else exists  # (1, Q): for all rows
    if layout.write:
        return decoder_mask(config, layout, packed, kind, present)
    if getattr(config, "global_attn_every_n_layers", 0):
        return local_masks(config, packed.embedded, kind, present)
    if attention not in DENSE or not family.wide_mask:
        return packed.mask
    if exists is None and attention == "sdpa":
        return None  # its quickest kernels take none
    return additive(present[:, None], packed.embedded.dtype)  # (B, 1, 1, Q)


def decoder_mask(config: Any, layout: Layout, packed: PackedRows, kind: Tensor, present: Tensor) -> Any:
    """Causal, with blocks that see themselves whole if the layout has them, near in sliding layers."""
    attention, window = config._attn_implementation, sliding_window_of(config)
    if attention in DENSE:
        visible = causal_blocks(kind if layout.blocks else torch.full_like(kind, TOKEN), present)
        position, memory = torch.arange(kind.shape[1], device=kind.device), kind != TOKEN
        distance = position[:, None] - position
        if packed.positions is not None:  # else of empty rows of a cache, softmax would be no number
            visible = visible | (distance == 0)
        return layered(window, visible, distance, memory[:, None] | memory[:, :, None], packed.embedded.dtype)
    if window is not None:
        raise ConfigError(
            f"attn_implementation={attention!r} cannot show memory to layers of a sliding window; load the "
            "model with 'sdpa' or 'eager'"
        )
    return block_mask(config, packed.embedded, kind, present) if layout.blocks else packed.mask


def layered(
    window: SlidingWindow | None, visible: Tensor, distance: Tensor, memory: Tensor, dtype: torch.dtype
) -> Any:
    """Who sees whom (B, Q, K) as a decoder takes it: one mask for all layers, or one for each type."""
    if window is None:
        return additive(visible, dtype)
    near = additive(window.visible(visible, distance, memory), dtype)
    if not window.by_layer:
        return near
    return {"full_attention": additive(visible, dtype), "sliding_attention": near}


def block_mask(config: Any, embedded: Tensor, kind: Tensor, exists: Tensor) -> Any:
    """`causal_blocks` for an attention implementation that takes no dense mask."""
    attention = config._attn_implementation
    if attention == "flex_attention":
        from transformers.masking_utils import create_causal_mask

        return create_causal_mask(
            config=config,
            inputs_embeds=embedded,
            attention_mask=exists,
            past_key_values=None,
            block_sequence_ids=kind,
        )
    raise ConfigError(
        f"attn_implementation={attention!r} cannot show memory blocks to themselves whole; load the model "
        "with 'sdpa' or 'eager', or wrap it with layout='causal'"
    )


def local_masks(config: Any, embedded: Tensor, kind: Tensor, exists: Tensor) -> dict[str, Tensor]:
    """The masks of an encoder whose layers see everything or their surroundings only."""
    if config._attn_implementation not in DENSE:
        raise ConfigError(
            f"attn_implementation={config._attn_implementation!r} cannot show memory to local layers; "
            "load the model with 'sdpa' or 'eager'"
        )
    everything = exists[:, None].expand(-1, exists.shape[1], -1)
    return {
        "full_attention": additive(everything, embedded.dtype),
        "sliding_attention": additive(window_or_memory(kind, exists, config.sliding_window), embedded.dtype),
    }
