"""A pretrained model as the paper's cell: (segment, state) -> (output, state), memory among its tokens."""

# B batch · S places of a segment · R read block · W write block · D width · Q = R + S + W

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.memory import Carried, LayerMemory, Memory
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.hf.backbone import SegmentBackbone
from rmt.hf.families import Layout
from rmt.hf.masks import READ, TOKEN, WRITE, block_mask, local_masks
from rmt.hf.segments import TextSegment
from rmt.hf.settings import Settings


class Packed(NamedTuple):
    """A segment with its memory, padding last."""

    embedded: Tensor  # (B, Q, D)
    kind: Tensor  # (B, Q) token, read or write
    exists: Tensor  # (B, Q)
    places: Tensor  # (B, Q) where each row of [before ∘ read ∘ tokens ∘ write] went


class CellOutput(NamedTuple):
    """What a segment gives."""

    hidden: Tensor  # (B, S, D) tokens only
    state: State
    backbone: Any  # the backbone's own output, memory included
    packed: Packed


class Cell:
    """A backbone called as it always is, with memory among its inputs; blocks of size zero add nothing."""

    def __init__(self, model: Any, options: dict[str, Any] | None = None):
        self.backbone = SegmentBackbone(model)
        self.embedding = self.backbone.module.get_input_embeddings()
        self.config = model.config
        self.memory: Memory = model.memory
        self.settings: Settings = model.settings
        self.layout: Layout = model.layout
        self.options = options or {}

    def __call__(self, segment: TextSegment, state: State) -> CellOutput:
        """Encode one segment; rows without it keep their state."""
        packed = self.pack(segment, state)
        layers = PackedLayerMemory(self, state.carried, packed) if self.memory.in_layers else None
        output = self.run(segment, packed, layers)
        read, tokens, write = self.unpack(output.last_hidden_state, packed)
        carried = self.memory.carry(read, write, layers.leaving if layers else state.carried)
        after = State(carried, (), state.cached).where(segment.alive, state)
        return CellOutput(tokens, after, output, packed)

    def run(self, segment: TextSegment, packed: Packed, layers: LayerMemory | None = None) -> Any:
        """The backbone's output; without memory blocks it is given what it would be given alone."""
        inputs: dict[str, Any] = {"attention_mask": packed.exists.long()}
        if self.memory.read_size + self.memory.write_size == 0:
            return self.backbone(layers, **inputs, **segment.inputs, **self.options)
        if self.layout.blocks:
            inputs["attention_mask"] = block_mask(self.config, *packed[:3])
        elif getattr(self.config, "global_attn_every_n_layers", 0):
            inputs["attention_mask"] = local_masks(self.config, *packed[:3])
        if self.layout.write:  # OPT would count its positions from the mask
            inputs["position_ids"] = torch.arange(packed.kind.shape[1], device=packed.kind.device)[None]
        if "token_type_ids" in segment.inputs:
            inputs["token_type_ids"] = self.token_types(segment.inputs["token_type_ids"], packed)
        return self.backbone(layers, inputs_embeds=packed.embedded, **inputs, **self.options)

    def pack(self, segment: TextSegment, state: State) -> Packed:
        """[before ∘ read ∘ tokens ∘ write], what exists to the left."""
        embedded = self.embed(segment)
        read = self.entering(self.memory.read_block(state.carried)).to(embedded.dtype)
        write = self.entering(self.memory.write_block(state.carried)).to(embedded.dtype)
        blocks = [
            torch.ones(block.shape[:2], dtype=torch.bool, device=block.device) for block in (read, write)
        ]
        exists = self.around(segment.exists, *blocks)
        kind = self.around(
            *(
                torch.full_like(part, name, dtype=torch.long)
                for part, name in zip((segment.exists, *blocks), (TOKEN, READ, WRITE), strict=True)
            )
        )
        order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)
        return Packed(
            rows(self.around(embedded, read, write), order),
            kind.gather(1, order),
            exists.gather(1, order),
            order.argsort(dim=1),
        )

    def unpack(self, hidden: Tensor, packed: Packed) -> tuple[Tensor, Tensor, Tensor]:
        """Packed rows (B, Q, D) -> read (B, R, D), tokens (B, S, D), write (B, W, D)."""
        read, write, after = self.memory.read_size, self.memory.write_size, self.layout.after
        sizes = [after, read, hidden.shape[1] - after - read - write, write]
        before, read_rows, rest, write_rows = rows(hidden, packed.places).split(sizes, dim=1)
        return read_rows, torch.cat([before, rest], dim=1), write_rows

    def around(self, tokens: Tensor, read: Tensor, write: Tensor) -> Tensor:
        """Memory among the tokens, along the axis of a segment."""
        after = self.layout.after
        return torch.cat([tokens[:, :after], read, tokens[:, after:], write], dim=1)

    def embed(self, segment: TextSegment) -> Tensor:
        if "inputs_embeds" in segment.inputs:
            return segment.inputs["inputs_embeds"]
        embedded: Tensor = self.embedding(segment.inputs["input_ids"])
        return embedded

    def entering(self, block: Tensor) -> Tensor:
        """A memory block as it enters a segment: as memory gives it, or at the size of token embeddings."""
        if self.settings.scale == "free":
            return block
        size = block.pow(2).mean(-1, keepdim=True).sqrt()
        return block * (self.settings.embedding_rms / size.clamp(min=torch.finfo(block.dtype).tiny))

    def token_types(self, types: Tensor, packed: Packed) -> Tensor:
        """Token types with type 0 for memory."""
        read, write = (
            types.new_zeros(len(types), size) for size in (self.memory.read_size, self.memory.write_size)
        )
        return self.around(types, read, write).gather(1, packed.places.argsort(dim=1))


class PackedLayerMemory(LayerMemory):
    """Memory in the layers of a packed segment; it learns from rows laid out [read ∘ tokens ∘ write]."""

    def __init__(self, cell: Cell, carried: Carried, packed: Packed):
        read, write = cell.memory.read_size, cell.memory.write_size
        super().__init__(cell.memory, carried, Spans(0, read, packed.kind.shape[1] - read - write, write))
        self.cell, self.packed = cell, packed

    def after(self, layer: int, hidden: Tensor) -> None:
        if self.memory.write_size:
            super().after(layer, torch.cat(self.cell.unpack(hidden, self.packed), dim=1))


def rows(hidden: Tensor, order: Tensor) -> Tensor:
    """The rows (B, Q, D) in another order (B, Q)."""
    return hidden.take_along_dim(order[..., None], dim=1)
