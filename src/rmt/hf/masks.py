"""Who sees whom in a packed segment [read ∘ tokens ∘ write ∘ padding], in the form the backbone takes."""

# B batch · Q queries · K keys

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rmt.errors import ConfigError

TOKEN, READ, WRITE = -1, 0, 1  # what stands at a place
DENSE = ("eager", "sdpa")  # attention that takes an additive mask (B, 1, Q, K)


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


def block_mask(config: Any, embedded: Tensor, kind: Tensor, exists: Tensor) -> Any:
    """`causal_blocks` for the attention implementation of `config`."""
    attention = config._attn_implementation
    if attention in DENSE:
        return additive(causal_blocks(kind, exists), embedded.dtype)
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
