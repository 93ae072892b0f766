"""Attention of a whole decoder segment [read ∘ tokens ∘ write] without a mask, in the quickest kernels.

Who sees whom is causal but for the two memory blocks, which see themselves whole. So it is causal attention,
whose rows of the blocks are replaced: the read block's by attention to itself, the write block's by attention
to everything.
"""

# B batch · H heads · Q places · E width of a head

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from rmt.hf.masks import CAUSAL


@cache
def causal_implementation(read: int, write: int) -> str:
    """The name under which transformers knows attention with blocks of these sizes; zero is plainly causal.

    There is no function that makes its mask: transformers gives it none.
    """
    name = f"{CAUSAL}_{read}_{write}"

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
    options = {name: option for name, option in options.items() if name != "is_causal"}

    def attend(queries: slice, keys: slice, is_causal: bool = False) -> Tensor:
        parts = (query[:, :, queries], key[:, :, keys], value[:, :, keys])
        return sdpa_attention_forward(module, *parts, None, is_causal=is_causal, **options)[0]

    everything = slice(0, size)
    outputs = [attend(everything, everything, is_causal=True)[:, read : size - write]]
    if read:
        outputs.insert(0, attend(slice(0, read), slice(0, read)))
    if write:
        outputs.append(attend(slice(size - write, size), everything))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
