"""A pretrained model as the paper's cell: (segment, state) -> (output, state), memory among its tokens."""

# B batch · S places of a segment · M memory · D width · Q = S + M (+ M with a write block)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.hf.families import Layout
from rmt.hf.masks import READ, TOKEN, WRITE, block_mask, local_masks
from rmt.hf.segments import Segment
from rmt.hf.settings import Settings


class Packed(NamedTuple):
    """A segment with its memory, padding last."""

    embedded: Tensor  # (B, Q, D)
    kind: Tensor  # (B, Q) token, read or write
    exists: Tensor  # (B, Q)
    places: Tensor  # (B, Q) where each row of [before ∘ read ∘ tokens ∘ write] went


class Output(NamedTuple):
    """What a segment gives."""

    hidden: Tensor  # (B, S, D) tokens only
    state: State
    backbone: Any  # the backbone's own output, memory included
    packed: Packed


class Cell:
    """A backbone called as it always is, with memory among its inputs; size zero adds nothing."""

    def __init__(
        self, backbone: Callable[..., Any], model: Any, options: dict[str, Any] | None = None
    ) -> None:
        self.backbone = backbone
        self.embedding = model.reader().get_input_embeddings()
        self.config = model.config
        self.settings: Settings = model.settings
        self.layout: Layout = model.layout
        self.options = options or {}

    def __call__(self, segment: Segment, state: State) -> Output:
        """Read one segment; rows without it keep their state."""
        packed = self.pack(segment, state)
        output = self.run(segment, packed)
        hidden = output.last_hidden_state
        tokens, memory = self.unpack(hidden, packed, segment)
        after = State(memory, (), state.cached).where(segment.alive, state)
        return Output(tokens, after, output, packed)

    def run(self, segment: Segment, packed: Packed) -> Any:
        """The backbone's output; without memory it is given what it would be given alone."""
        inputs: dict[str, Any] = {"attention_mask": packed.exists.long()}
        if self.settings.memory == 0:
            return self.backbone(**inputs, **segment.inputs, **self.options)
        if self.layout.blocks:
            inputs["attention_mask"] = block_mask(self.config, *packed[:3])
        elif getattr(self.config, "global_attn_every_n_layers", 0):
            inputs["attention_mask"] = local_masks(self.config, *packed[:3])
        if self.layout.write:  # OPT would count its positions from the mask
            inputs["position_ids"] = torch.arange(packed.kind.shape[1], device=packed.kind.device)[None]
        if "token_type_ids" in segment.inputs:
            inputs["token_type_ids"] = self.token_types(segment.inputs["token_type_ids"], packed)
        return self.backbone(inputs_embeds=packed.embedded, **inputs, **self.options)

    def pack(self, segment: Segment, state: State) -> Packed:
        """[before ∘ read ∘ tokens ∘ write], what exists to the left."""
        embedded = self.embed(segment)
        memory = self.entering(state.memory).to(embedded.dtype)
        there = torch.ones(memory.shape[:2], dtype=torch.bool, device=embedded.device)
        exists = self.around(segment.exists, there, there)
        kind = self.around(
            torch.full_like(segment.exists, TOKEN, dtype=torch.long),
            torch.full_like(there, READ, dtype=torch.long),
            torch.full_like(there, WRITE, dtype=torch.long),
        )
        order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)
        return Packed(
            rows(self.around(embedded, memory, memory), order),
            kind.gather(1, order),
            exists.gather(1, order),
            order.argsort(dim=1),
        )

    def unpack(self, hidden: Tensor, packed: Packed, segment: Segment) -> tuple[Tensor, Tensor]:
        """Tokens (B, S, D) and the memory (B, M, D) for the next segment: H_{τ+1}^mem := H_τ^write."""
        size, after = self.settings.memory, self.layout.after
        tokens = segment.exists.shape[1]
        write = size if self.layout.write else 0
        before, read, rest, written = rows(hidden, packed.places).split(
            [after, size, tokens - after, write], dim=1
        )
        return torch.cat([before, rest], dim=1), written if write else read

    def around(self, tokens: Tensor, read: Tensor, write: Tensor) -> Tensor:
        """Memory among the tokens, along the axis of a segment."""
        after = self.layout.after
        parts = [tokens[:, :after], read, tokens[:, after:]]
        return torch.cat([*parts, write] if self.layout.write else parts, dim=1)

    def embed(self, segment: Segment) -> Tensor:
        if "inputs_embeds" in segment.inputs:
            return segment.inputs["inputs_embeds"]
        embedded: Tensor = self.embedding(segment.inputs["input_ids"])
        return embedded

    def entering(self, memory: Tensor) -> Tensor:
        """Memory as it enters a segment: as it left the last one, or at the size of token embeddings."""
        if self.settings.scale == "free":
            return memory
        size = memory.pow(2).mean(-1, keepdim=True).sqrt()
        return memory * (self.settings.embedding_rms / size.clamp(min=torch.finfo(memory.dtype).tiny))

    def token_types(self, types: Tensor, packed: Packed) -> Tensor:
        """Token types with type 0 for memory."""
        memory = types.new_zeros(len(types), self.settings.memory)
        return self.around(types, memory, memory).gather(1, packed.places.argsort(dim=1))


def rows(hidden: Tensor, order: Tensor) -> Tensor:
    """The rows (B, Q, D) in another order (B, Q)."""
    return hidden.take_along_dim(order[..., None], dim=1)
