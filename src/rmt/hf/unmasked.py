"""Attention of a segment without padding by the quickest kernels, which take no mask.

In an encoder everything sees everything. In a decoder's [read ∘ tokens ∘ write], who sees whom is causal but
for the two memory blocks, which see themselves whole. So it is causal attention, whose rows of the blocks are
replaced: the read block's by attention to itself, the write block's by attention to everything.

Transformers knows these by a name for which it has no function that makes a mask, and so it makes none: by
the name "sdpa", it makes one that hides nothing where it cannot look at what it was given, as in a recording.
"""

# B batch · H heads · Q places · E width of a head

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rmt.hf.families import Layout
from rmt.hf.masks import UNMASKED


def unmasked_implementation(layout: Layout, read: int, write: int) -> str:
    """The name of the attention of whole segments in this layout, with memory blocks of these sizes."""
    if not layout.write:
        return full_implementation()
    return causal_implementation(read, write) if layout.blocks else causal_implementation(0, 0)


@cache
def full_implementation() -> str:
    """Everything sees everything."""
    name = f"{UNMASKED}_full"

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **options: Any
    ) -> tuple[Tensor, None]:
        options = {**options, "is_causal": False}  # a mask is a bias of positions here: nothing is hidden
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)[0], None

    AttentionInterface.register(name, attend)
    return name


@cache
def causal_implementation(read: int, write: int) -> str:
    """Causal, with blocks of these sizes that see themselves whole."""
    name = f"{UNMASKED}_causal_{read}_{write}"

    def attend(
        module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: None, **options: Any
    ) -> tuple[Tensor, None]:
        return block_attention(module, (query, key, value), (read, write), options), None

    AttentionInterface.register(name, attend)
    return name


def block_attention(
    module: nn.Module,
    heads: tuple[Tensor, Tensor, Tensor],
    blocks: tuple[int, int],
    options: dict[str, Any],
) -> Tensor:
    """Outputs (B, Q, H, E) of queries, keys and values (B, H, Q, E) with a read and a write block."""
    query, key, value = heads
    (read, write), size = blocks, query.shape[2]
    causal = attention(module, heads, True, options)
    if read + write == 0:
        return causal
    of_read, _, of_write = query.split([read, size - read - write, write], dim=2)
    outputs = [causal[:, read : size - write]]
    if read:
        block = (of_read, key[:, :, :read], value[:, :, :read])
        outputs.insert(0, attention(module, block, False, options))
    if write:
        outputs.append(attention(module, (of_write, key, value), False, options))
    return torch.cat(outputs, dim=1)


def attention(
    module: nn.Module, heads: tuple[Tensor, Tensor, Tensor], is_causal: bool, options: dict[str, Any]
) -> Tensor:
    """What transformers computes by the name "sdpa", (B, Q, H, E)."""
    options = {**options, "is_causal": is_causal}
    output: Tensor = sdpa_attention_forward(module, *heads, attention_mask=None, **options)[0]
    return output
