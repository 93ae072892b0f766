"""Segments with memory tokens, driven by plain models alone: a few lines that know nothing of rmt."""

# M memory · L tokens of a segment · Q = M + L + M · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

HIDDEN = torch.finfo(torch.float64).min


def block_mask(memory: int, tokens: int, blocks: bool = True) -> Tensor:
    """Who sees whom in [memory ∘ tokens ∘ memory], by the paper's words, (Q, Q)."""
    size = memory + tokens + memory
    sees = torch.zeros(size, size, dtype=torch.bool)
    for query in range(size):
        for key in range(size):
            both_read = query < memory and key < memory
            both_write = query >= memory + tokens and key >= memory + tokens
            sees[query, key] = key <= query or (blocks and (both_read or both_write))
    return sees


def near_mask(sees: Tensor, memory: int, window: int) -> Tensor:
    """The same in a layer of a sliding window: tokens see near ones, and all see memory."""
    size = len(sees)
    near = sees.clone()
    for query in range(size):
        for key in range(size):
            tokens = all(memory <= place < size - memory for place in (query, key))
            near[query, key] &= not tokens or query - key < window
    return near


def decoder_masks(config: Any, memory: int, tokens: int, blocks: bool = True) -> tuple[Any, list[Tensor]]:
    """What a plain decoder is given as its mask, and what each layer sees by it."""
    sees = block_mask(memory, tokens, blocks)
    types, window = getattr(config, "layer_types", None), getattr(config, "sliding_window", None)
    layers = config.num_hidden_layers
    if not window or (types and "sliding_attention" not in types):
        return additive(sees), [sees] * layers
    near = near_mask(sees, memory, window)
    if not types:
        return additive(near), [near] * layers
    masks = {"full_attention": sees, "sliding_attention": near}
    return {name: additive(mask) for name, mask in masks.items()}, [masks[name] for name in types]


def additive(sees: Tensor) -> Tensor:
    return torch.where(sees, 0.0, HIDDEN)[None, None].to(torch.get_default_dtype())


def decoder_segments(model: Any, ids: Tensor, memory: Tensor, length: int, blocks: bool = True) -> list[Any]:
    """A plain decoder's outputs on [memory ∘ segment ∘ memory], each with `tokens`, their places."""
    outputs, embed = [], model.get_input_embeddings()
    memory = memory.expand(len(ids), -1, -1)
    for segment in ids.split(length, dim=1):
        size, count = memory.shape[1], segment.shape[1]
        places = torch.arange(count + 2 * size)[None]
        output = model(
            inputs_embeds=torch.cat([memory, embed(segment), memory], dim=1),
            attention_mask=decoder_masks(model.config, size, count, blocks)[0],
            position_ids=places.expand(len(ids), -1),
            use_cache=False,
            output_hidden_states=True,
        )
        outputs.append((output, slice(size, size + count)))
        memory = last_states(output)[:, size + count :]
    return outputs


def encoder_segments(
    model: Any, segments: list[Tensor], memory: Any, layout: tuple[int, int], separator: Tensor
) -> list[Any]:
    """A plain encoder's outputs on segments with memory behind `layout[0]` tokens and `layout[1]` separators.

    `memory` has the initial tokens, and an entrance where embeddings are narrower than outputs.
    """
    outputs, embed = [], model.get_input_embeddings()
    enter = getattr(memory, "entrance", lambda rows: rows)
    carried = memory.tokens.weight.expand(len(segments[0]), -1, -1)
    for segment in segments:
        before, rest = segment[:, : layout[0]], segment[:, layout[0] :]
        rest = torch.cat([separator[:, : layout[1]], rest], dim=1)
        rows = torch.cat([embed(before), enter(carried), embed(rest)], dim=1)
        ones = torch.ones(rows.shape[:2], dtype=torch.long)
        outputs.append(model(inputs_embeds=rows, attention_mask=ones, output_hidden_states=True))
        carried = last_states(outputs[-1])[:, layout[0] : layout[0] + carried.shape[1]]
    return outputs


def last_states(output: Any) -> Tensor:
    """The last layer's states, whatever head stands on them."""
    if output.get("last_hidden_state") is not None:
        return output.last_hidden_state
    return output.hidden_states[-1]


def reach(layers: list[Tensor]) -> Tensor:
    """Which place can depend on which after all layers, (Q, Q)."""
    depends = torch.eye(len(layers[0]), dtype=torch.bool)
    for sees in layers:
        depends = ((sees | torch.eye(len(sees), dtype=torch.bool)).double() @ depends.double()) > 0
    return depends


def influence(model: Any, rows: Tensor, **inputs: Any) -> Tensor:
    """How much a place of the last layer changes when a place of the input (1, Q, D) does, (Q, Q)."""
    size = rows.shape[1]
    many = rows.repeat(1 + size, 1, 1)
    for place in range(size):
        many[1 + place, place] += torch.linspace(-0.5, 1, rows.shape[2])  # a norm would take a constant away
    with torch.no_grad():
        states = last_states(model(inputs_embeds=many, output_hidden_states=True, **inputs))
    return (states[1:] - states[:1]).abs().amax(-1).T
