"""Decoding token by token: keys and values inside a segment, memory across its border, in constant space."""

# B batch · n new tokens · K cached keys · C rows of a layer cache · R read block · W write block · D width

from __future__ import annotations

from copy import copy
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import Cache, DynamicCache

from rmt.core.cache import LayerInputs
from rmt.core.inputs import require_state
from rmt.core.memory import LayerMemory
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.errors import ConfigError, DataError
from rmt.hf.cell import Cell
from rmt.hf.head import HiddenStates
from rmt.hf.inputs import (
    named_arguments,
    refuse_beside_cache,
    refuse_in_segments,
    require_same_form,
    require_tokens,
)
from rmt.hf.layer_cache import CachedLayerInputs
from rmt.hf.masks import layered, sliding_window_of
from rmt.hf.segments import gather, scatter
from rmt.hf.steppable import require_steppable


class PendingRows(NamedTuple):
    """A text's last segment, whose keys and values are computed when the text goes on."""

    embedded: Tensor  # (B, n, D)
    exists: Tensor  # (B, n)
    earlier: Tensor  # (B,) segments before it


class SegmentCache(Cache):
    """The keys and values of [read ∘ tokens so far] of each row's segment, and the state it started from.

    Tokens never see the write block, so it runs once, when a row's next token needs a new segment. Rows
    cross their borders each at its own time; columns that no row needs any more are dropped.
    """

    state: State
    length: Tensor  # (B,) tokens in a row's segment
    opened: Tensor  # (B,) whether its read block was encoded
    segments: Tensor  # (B,) how many segments it has opened
    exists: Tensor  # (B, K) which keys are of its segment
    in_block: Tensor  # (K,) which of them are memory
    read_rows: Tensor  # (B, R, D) the last layer's outputs of its read block
    inputs: LayerInputs  # N × (B, K, D) of the layers, where the next segment's cache will want them

    def __init__(
        self, model: Any, state: State | None = None, pending: PendingRows | None = None, seen: int = 0
    ):
        super().__init__(layers=[])
        require_steppable(model)
        self.model, self.start, self.pending = model, state, pending
        self.cell = Cell(model)
        self.inner: Any = DynamicCache()
        self.seen = seen
        self.begun = False
        self.output_class: Any = HiddenStates  # or the backbone's, once it has answered

    def call_backbone(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's output for the next tokens (B, n), where padding may be anywhere."""
        arguments = named_arguments(self.cell.backbone.plain_forward, args, kwargs)
        refuse_beside_cache(arguments, self.cell.config)
        refuse_in_segments(arguments, self.cell.config)
        tokens, mask = arguments.get("inputs_embeds"), arguments.get("attention_mask")
        tokens = self.cell.embedded(arguments["input_ids"]) if tokens is None else tokens
        exists = torch.ones(tokens.shape[:2], device=tokens.device) if mask is None else mask
        if self.start is None and not self.begun and not self.seen:
            require_tokens(exists)
        hidden = self.encode(tokens, exists[:, -tokens.shape[1] :].bool())
        return self.output_class(last_hidden_state=hidden, past_key_values=self)

    def encode(self, tokens: Tensor, exists: Tensor) -> Tensor:
        """Encode the next tokens (B, n, D) -> (B, n, D), as many segments as they fill."""
        self.begin(len(tokens))
        self.seen += tokens.shape[1]
        return self.encode_begun(tokens, exists)

    def encode_begun(self, tokens: Tensor, exists: Tensor) -> Tensor:
        """The same behind what is cached already."""
        order = (~exists).to(torch.uint8).argsort(dim=1, stable=True)  # existing tokens first
        left, hidden = exists.sum(1), torch.zeros_like(tokens)
        done = torch.zeros_like(left)
        while bool((done < left).any()):
            self.turn_over(done < left)
            take = torch.minimum(left - done, self.model.settings.segment_length - self.length)
            column = torch.arange(int(take.max()), device=tokens.device).expand(len(tokens), -1)
            taken = column < take[:, None]
            source = order.gather(1, (done[:, None] + column).clamp(max=tokens.shape[1] - 1))
            states = self.advance(gather(tokens, source), taken, self.layer_memory(column.shape[1]))
            hidden = scatter(hidden, source, states, taken)
            self.length, done = self.length + take, done + take
        return hidden

    def begin(self, batch: int) -> None:
        """Start from the state that was given, or from the initial one, with rows that wait for it."""
        require_steppable(self.model)
        if self.begun and batch != len(self.length):
            raise ConfigError(
                f"{batch} rows do not fit a cache of {len(self.length)}; give the same rows as before"
            )
        if self.begun:
            return
        initial = self.model.initial_state(batch)
        self.state = initial if self.start is None else self.start
        require_state(self.state)
        require_same_form(self.state, initial)
        self.begun, pending = True, self.pending
        self.length = torch.zeros_like(self.state.cached)
        self.opened = torch.zeros_like(self.state.cached, dtype=torch.bool)
        self.segments = torch.zeros_like(self.state.cached)
        self.exists, self.in_block = self.opened[:, None][:, :0], self.opened[:0]
        self.read_rows = torch.zeros_like(self.block(self.cell.memory.read_block(self.state.carried)))
        self.inputs = tuple(rows[:, :0] for rows in self.state.cache)
        self.start = self.pending = None
        if pending is not None:
            self.segments = self.segments + pending.earlier
            self.encode_begun(pending.embedded, pending.exists)

    def has_begun(self) -> bool:
        """Whether there are rows; those that wait for the text to go on begin here."""
        if self.start is not None:
            self.begin(len(self.start.cached))
        return self.begun

    def turn_over(self, wanting: Tensor) -> None:
        """Close the segments of rows that are full and want to go on, and open new ones."""
        full = wanting & (self.length == self.model.settings.segment_length)
        if bool(full.any()):
            self.write(full)
        fresh = wanting & ~self.opened
        if not bool(fresh.any()):
            return
        self.segments = self.segments + fresh
        most = self.model.settings.max_segments
        if most is not None and int(self.segments.max()) > most:
            raise DataError(f"the text goes on beyond max_segments={most}; wrap the model with more")
        self.advance_cache(fresh)
        block = self.block(self.cell.memory.read_block(self.state.carried))
        read = self.advance_block(block, fresh, self.layer_memory(block.shape[1]))
        self.read_rows = torch.where(fresh[:, None, None], read, self.read_rows)
        self.opened = self.opened | fresh

    def write(self, rows: Tensor) -> None:
        """Run the write block of `rows` and forget their tokens."""
        memory, carried = self.cell.memory, self.state.carried
        block = self.block(memory.write_block(carried))
        layers = self.layer_memory(0, block.shape[1])
        written = self.advance_block(block, rows, layers)
        carried = memory.carry(self.read_rows, written, layers.leaving if layers else carried)
        self.forget(rows, State(carried, *self.pushed()))

    def pushed(self) -> tuple[LayerInputs, Tensor]:
        """The cache behind each row's segment, and how many of its rows are valid."""
        if not self.inputs:
            return (), self.state.cached
        return self.cell.cache.select(self.inputs, self.exists & ~self.in_block)

    def forget(self, rows: Tensor, state: State) -> None:
        """Let `rows` go on from `state` with a new segment."""
        self.state = state.where(rows, self.state)
        self.exists = self.exists & ~rows[:, None]
        self.length, self.opened = self.length * ~rows, self.opened & ~rows
        needed = self.exists.any(0)
        self.exists, self.in_block = self.exists[:, needed], self.in_block[needed]
        for layer in self.inner.layers:
            layer.keys, layer.values = layer.keys[:, :, needed], layer.values[:, :, needed]
        self.inputs = tuple(inputs[:, needed] for inputs in self.inputs)

    def close(self) -> State:
        """The state after everything that was encoded; the cache cannot be used any more."""
        if self.has_begun() and self.seen:
            require_steppable(self.model)
            self.write(self.length > 0)
        return self.state

    def fork(self) -> SegmentCache:
        """The same cache, to go on in another way; tensors are shared, since none is written to."""
        other = copy(self)
        other.inner = copy(self.inner)
        other.inner.layers = [copy(layer) for layer in self.inner.layers]
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> SegmentCache:
        return self.fork()

    def advance_cache(self, rows: Tensor) -> None:
        """Run the cached rows that `rows` (B,) start behind."""
        exists = self.cell.cache.valid(self.state.cached) & rows[:, None]
        if bool(exists.any()):
            dtype = self.cell.embedding.weight.dtype
            self.advance(self.state.cache[0].to(dtype), exists, None, cache=self.state.cache)

    def advance_block(self, block: Tensor, rows: Tensor, layers: LayerMemory | None) -> Tensor:
        """Run a memory block (B, m, D) that exists in some rows (B,)."""
        exists = rows[:, None].expand(-1, block.shape[1])
        return self.advance(block, exists, layers, block=True)

    def advance(
        self,
        embedded: Tensor,
        exists: Tensor,
        layers: LayerMemory | None,
        block: bool = False,
        cache: LayerInputs = (),
    ) -> Tensor:
        """Run the next rows of the axis (B, n, D), tokens, a block of memory or a `cache`, and keep them."""
        size = embedded.shape[1]
        if size == 0:
            return embedded
        before = self.exists.shape[1]
        self.exists = torch.cat([self.exists, exists], dim=1)
        self.in_block = torch.cat([self.in_block, torch.full_like(exists[0], block)])
        positions = self.exists.cumsum(1) - 1  # (B, K + n)
        empty = tuple(rows[:, :0] for rows in self.state.cache)
        cached = CachedLayerInputs(cache or empty, layers) if empty else None
        output = self.cell.backbone(
            cached or layers,
            inputs_embeds=embedded,
            attention_mask=self.mask(before, positions, block, embedded.dtype),
            position_ids=positions[:, before:].clamp(min=0),
            past_key_values=self.inner,
            use_cache=True,
            return_dict=True,
        )
        if cached is not None:
            self.inputs = tuple(map(torch.cat, zip(self.inputs, cached.inputs, strict=True), repeat(1)))
        self.output_class = type(output)
        hidden: Tensor = output.last_hidden_state
        return hidden

    def mask(self, before: int, positions: Tensor, block: bool, dtype: torch.dtype) -> Any:
        """What the rows behind the first `before` keys see, as the backbone takes it."""
        size = self.exists.shape[1] - before
        among = torch.ones(size, size, dtype=torch.bool, device=positions.device)
        among = among if block and self.cell.layout.blocks else among.tril()
        visible = self.exists[:, None] & torch.cat([among.new_ones(size, before), among], dim=1)
        visible.diagonal(before, 1, 2).fill_(True)  # padding sees itself: of nothing, softmax is no number
        distance = positions[:, before:, None] - positions[:, None]
        memory = torch.full_like(self.in_block, True) if block else self.in_block
        return layered(sliding_window_of(self.cell.config), visible, distance, memory, dtype)

    def block(self, rows: Tensor) -> Tensor:
        """A memory block as it enters the backbone."""
        return self.cell.entering(rows).to(self.cell.embedding.weight.dtype)

    def layer_memory(self, tokens: int, write: int = 0) -> LayerMemory | None:
        """Memory in the layers while so many rows pass them, of the kinds that live there."""
        if not self.cell.memory.in_layers:
            return None
        return LayerMemory(self.cell.memory, self.state.carried, Spans(0, 0, tokens, write))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows in another order, for beam search."""
        if not self.has_begun():
            return
        self.inner.reorder_cache(beam_idx)
        self.exists, self.length = self.exists[beam_idx], self.length[beam_idx]
        self.opened, self.segments = self.opened[beam_idx], self.segments[beam_idx]
        self.state = self.state.map(lambda tensor: tensor[beam_idx])
        self.read_rows = self.read_rows[beam_idx]
        self.inputs = tuple(inputs[beam_idx] for inputs in self.inputs)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some rows, in this order."""
        self.reorder_cache(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so many times, one beside the other."""
        if self.has_begun():
            rows = torch.arange(len(self.length), device=self.length.device)
            self.reorder_cache(rows.repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        raise ConfigError(
            "tokens cannot be taken back across a segment's border; decode without an assistant"
        )

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_croppable(self) -> bool:
        return False
