"""A pretrained model as the paper's cell: (segment, state) -> (output, state), memory among its tokens."""

# B batch · S places of a segment · C cache · R read block · W write block · D width · Q = R + S + W

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.cache import Cache, LayerInputs
from rmt.core.inputs import unknown_ids
from rmt.core.memory import Carried, LayerMemory, Memory
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.hf.backbone import SegmentBackbone
from rmt.hf.families import Family, Layout
from rmt.hf.layer_cache import CachedLayerInputs
from rmt.hf.masks import READ, TOKEN, WRITE, backbone_mask
from rmt.hf.segments import PresentRows, TextSegment, spread
from rmt.hf.settings import MemorySettings
from rmt.nn.backbone import Around

if TYPE_CHECKING:
    from rmt.hf.recorder import SegmentRecorder


class Packed(NamedTuple):
    """A segment with its memory, padding last; None where the host knows that there is nothing to say."""

    embedded: Tensor  # (B, Q, D)
    exists: Tensor | None = None  # (B, Q), None = everything
    order: Tensor | None = (
        None  # (B, Q) row of [before ∘ read ∘ tokens ∘ write] at a place, None = as they are
    )
    kind: Tensor | None = None  # (B, Q) token, read or write; None = as they are
    types: Tensor | None = None  # (B, Q) token types, where the text has them
    positions: Tensor | None = None  # (B, Q) behind a cache; None = from 0 on

    @property
    def mask(self) -> Tensor:
        """1 where something exists, (B, Q)."""
        if self.exists is None:
            return torch.ones(self.embedded.shape[:2], dtype=torch.long, device=self.embedded.device)
        return self.exists.long()


class CellOutput(NamedTuple):
    """What a segment gives."""

    hidden: Tensor  # (B, S, D) tokens only
    state: State
    backbone: Any  # the backbone's own output, memory included
    packed: Packed
    present: PresentRows | None = None  # the rows of these two, None = all


class Cell:
    """A backbone called as it always is, with memory among its inputs; blocks of size zero add nothing.

    With a recorder, segments are replayed where they can be.
    """

    def __init__(
        self, model: Any, options: dict[str, Any] | None = None, recorder: SegmentRecorder | None = None
    ):
        self.backbone = SegmentBackbone(model)
        self.embedding = self.backbone.module.get_input_embeddings()
        self.config = model.config
        self.memory: Memory = model.memory
        self.cache = Cache(model.settings.cache_config)
        self.settings: MemorySettings = model.settings
        self.family: Family = model.family
        self.layout: Layout = model.layout
        self.options = options or {}
        self.recorder = recorder

    def __call__(self, segment: TextSegment, state: State) -> CellOutput:
        """Encode one segment; rows without it keep their state."""
        if segment.present is None or self.recorder is not None:  # recordings are of all rows
            return self.encoded(segment, state)
        present, batch = segment.present, len(segment.alive)
        part = state.map(lambda rows: rows.index_select(0, present.rows))
        output = self.encoded(segment.of_present(present), part)
        after = output.state.map(lambda rows: spread(rows, present, batch)).where(segment.alive, state)
        return output._replace(hidden=spread(output.hidden, present, batch), state=after, present=present)

    def encoded(self, segment: TextSegment, state: State) -> CellOutput:
        """One segment of all rows, those that do not have it with what stands in its place."""
        length = segment.exists.shape[1]
        if self.recorder is not None:
            segment = self.recorder.lengthened(segment)
        packed = self.pack(segment, state)
        memory = PackedLayerMemory(self, state.carried, packed) if self.memory.in_layers else None
        cached = CachedLayerInputs(state.cache, memory) if state.cache else None
        output = None if self.recorder is None else self.recorder(packed)
        if output is None:
            output = self.run(segment, self.behind_cache(packed, state), cached or memory)
        read, tokens, write = self.unpack(output.last_hidden_state, packed)
        carried = self.memory.carry(read, write, memory.leaving if memory else state.carried)
        after = State(carried, *self.pushed(segment, state, packed, cached.inputs if cached else ()))
        after = after if segment.whole else after.where(segment.alive, state)
        return CellOutput(tokens[:, :length], after, output, packed)

    def behind_cache(self, packed: Packed, state: State) -> Packed:
        """[cache ∘ packed rows] (B, C + Q, D): cached rows are the tokens that they were."""
        if not state.cache:
            return packed
        cached, rows = state.cache[0].to(packed.embedded.dtype), packed.embedded
        present = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
        exists = torch.cat(
            [self.cache.valid(state.cached), present if packed.exists is None else packed.exists], dim=1
        )
        kind = self.kinds(rows.shape[1], rows.device) if packed.kind is None else packed.kind
        kind = F.pad(kind.expand(len(rows), -1), (self.cache.rows, 0), value=TOKEN)
        return Packed(torch.cat([cached, rows], dim=1), exists, kind=kind, positions=exists.cumsum(1) - 1)

    def pushed(
        self, segment: TextSegment, state: State, packed: Packed, inputs: LayerInputs
    ) -> tuple[LayerInputs, Tensor]:
        """The cache behind a segment, of the layers' inputs, and how many of its rows are valid."""
        rows = tuple(self.unpack(hidden, packed)[1] for hidden in inputs)
        spans = Spans(self.cache.rows, 0, segment.exists.shape[1], 0)
        return self.cache.push(state, rows, spans, None if segment.whole else segment.exists)

    def run(self, segment: TextSegment, packed: Packed, layers: Around | None = None) -> Any:
        """The backbone's output; without memory and cache it is given what it would be given alone."""
        if self.memory.read_size + self.memory.write_size + self.cache.rows:
            return self.run_packed(packed, layers)
        return self.backbone(layers, attention_mask=packed.mask, **segment.inputs, **self.options)

    def run_packed(self, packed: Packed, layers: Around | None = None) -> Any:
        """The backbone's output for a segment with memory blocks, or behind a cache."""
        size, device = packed.embedded.shape[1], packed.embedded.device
        kind = self.kinds(size, device) if packed.kind is None else packed.kind
        mask = backbone_mask(self.config, self.family, self.layout, packed, kind)
        inputs: dict[str, Any] = {"attention_mask": mask}
        if self.layout.write:  # OPT would count its positions from the mask
            counted = torch.arange(size, device=device)[None]
            inputs["position_ids"] = counted if packed.positions is None else packed.positions.clamp(min=0)
        if packed.types is not None:
            inputs["token_type_ids"] = packed.types
        return self.backbone(layers, inputs_embeds=packed.embedded, **inputs, **self.options)

    def pack(self, segment: TextSegment, state: State) -> Packed:
        """[before ∘ read ∘ tokens ∘ write], what exists to the left.

        Tokens of a segment stand to the left already: only a write block can have padding before it.
        """
        embedded = self.embed(segment)
        read = self.entering(self.memory.read_block(state.carried)).to(embedded.dtype)
        write = self.entering(self.memory.write_block(state.carried)).to(embedded.dtype)
        packed = Packed(self.around(embedded, read, write), types=self.token_types(segment))
        if segment.whole:
            return packed
        blocks = (
            torch.ones(block.shape[:2], dtype=torch.bool, device=block.device) for block in (read, write)
        )
        exists = self.around(segment.exists, *blocks)
        if not self.memory.write_size:
            return packed._replace(exists=exists)
        order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)
        kind = self.kinds(exists.shape[1], exists.device).expand_as(order)
        return Packed(
            reordered(packed.embedded, order),
            exists.gather(1, order),
            order,
            kind.gather(1, order),
            None if packed.types is None else packed.types.gather(1, order),
        )

    def unpack(self, hidden: Tensor, packed: Packed) -> tuple[Tensor, Tensor, Tensor]:
        """Packed rows (B, Q, D), also behind a cache -> read (B, R, D), tokens (B, S, D), write (B, W, D)."""
        hidden = hidden[:, -packed.embedded.shape[1] :]
        if packed.order is not None:
            hidden = reordered(hidden, packed.order.argsort(dim=1))
        read, write, after = self.memory.read_size, self.memory.write_size, self.layout.after
        sizes = [after, read, hidden.shape[1] - after - read - write, write]
        before, read_rows, rest, write_rows = hidden.split(sizes, dim=1)
        return read_rows, torch.cat([before, rest], dim=1) if after else rest, write_rows

    def kinds(self, size: int, device: torch.device) -> Tensor:
        """What stands at each of so many places where nothing is out of order, (1, Q)."""
        read, write = self.memory.read_size, self.memory.write_size
        kinds = ((TOKEN, size - read - write), (READ, read), (WRITE, write))
        return self.around(*(torch.full((1, length), kind, device=device) for kind, length in kinds))

    def around(self, tokens: Tensor, read: Tensor, write: Tensor) -> Tensor:
        """Memory among the tokens, along the axis of a segment."""
        after = self.layout.after
        return torch.cat([tokens[:, :after], read, tokens[:, after:], write], dim=1)

    def embed(self, segment: TextSegment) -> Tensor:
        if "inputs_embeds" in segment.inputs:
            return segment.inputs["inputs_embeds"]
        return self.embedded(segment.inputs["input_ids"])

    def embedded(self, ids: Tensor) -> Tensor:
        """Token ids as the backbone takes them; those that it does not know are refused."""
        try:
            embedded: Tensor = self.embedding(ids)
        except IndexError:
            raise unknown_ids(len(self.embedding.weight)) from None
        return embedded

    def entering(self, block: Tensor) -> Tensor:
        """A memory block as it enters a segment: as memory gives it, or at the size of token embeddings.

        Where embeddings are narrower than a backbone's outputs, an entrance brings it to their width.
        """
        entrance: Any = getattr(self.memory, "entrance", None)
        if entrance is not None:
            block = entrance(block)
        if self.settings.scale == "free":
            return block
        size = block.pow(2).mean(-1, keepdim=True).sqrt()
        return block * (self.settings.embedding_rms / size.clamp(min=torch.finfo(block.dtype).tiny))

    def token_types(self, segment: TextSegment) -> Tensor | None:
        """Token types with type 0 for memory, (B, Q)."""
        types = segment.inputs.get("token_type_ids")
        if types is None:
            return None
        read, write = (
            types.new_zeros(len(types), size) for size in (self.memory.read_size, self.memory.write_size)
        )
        return self.around(types, read, write)


class PackedLayerMemory(LayerMemory):
    """Memory in the layers of a packed segment; it learns from rows laid out [read ∘ tokens ∘ write]."""

    def __init__(self, cell: Cell, carried: Carried, packed: Packed):
        read, write = cell.memory.read_size, cell.memory.write_size
        super().__init__(cell.memory, carried, Spans(0, read, packed.embedded.shape[1] - read - write, write))
        self.cell, self.packed = cell, packed

    def after(self, layer: int, hidden: Tensor) -> None:
        if self.memory.write_size:
            super().after(layer, torch.cat(self.cell.unpack(hidden, self.packed), dim=1))


def reordered(hidden: Tensor, order: Tensor) -> Tensor:
    """The rows (B, Q, D) in another order (B, Q)."""
    return hidden.take_along_dim(order[..., None], dim=1)
