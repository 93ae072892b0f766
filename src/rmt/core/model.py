"""The segment model: a function (tokens, state) -> (logits, state); the paper's models are its settings."""

# B batch · L tokens · M memory · C cache · N layers · D width · V vocabulary · Q = M+L+M · K = C+Q

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from rmt.core.cache import Cache
from rmt.core.config import ModelConfig
from rmt.core.inputs import (
    require_carried,
    require_config,
    require_lengths,
    require_read_block,
    require_reset,
    require_segment,
    require_state,
    require_targets,
    unknown_ids,
    whole_number,
)
from rmt.core.memory import LayerMemory, build_memory
from rmt.core.spans import Spans
from rmt.core.state import State
from rmt.core.stepping import OpenSegment
from rmt.errors import ConfigError
from rmt.nn.adaptive import AdaptiveEmbedding
from rmt.nn.attention import eager, fused
from rmt.nn.axis import Axis
from rmt.nn.backbone import Backbone
from rmt.nn.embedding import TiedEmbedding
from rmt.nn.joining import cat_rows
from rmt.nn.layer import RESIDUAL_OUTPUTS


class Output(NamedTuple):
    """What a segment gives."""

    logits: Tensor  # (B, L, V); (B, L, 0) from an adaptive softmax that was given targets
    state: State
    # N × (B, H, Q, K), only if asked for; of a last layer that only writes, (B, H, M, K)
    attention: tuple[Tensor, ...] = ()
    losses: Tensor | None = None  # (B, L), only if targets were given
    memory_loss: Tensor | None = None  # (), of memory that predicts, only if targets were given


class EncodedSegment(NamedTuple):
    """What a segment is encoded as, before anything is predicted from it."""

    hidden: Tensor  # (B, L, D) tokens only
    write: Tensor  # (B, M, D), or empty without a write block
    state: State
    attention: tuple[Tensor, ...]  # N × (B, H, Q, K), empty tensors unless asked for


class SegmentModel(nn.Module):
    """A Transformer that reads one segment at a time and hands its state on."""

    segment_length: int | None = None  # tokens of a segment in the run that it was loaded from

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = require_config(config)
        self.embedding = build_embedding(config)
        self.memory = build_memory(config.memory, config.width, config.layers)
        self.carried_names = frozenset(self.memory.initial(1))
        self.cache = Cache(config.cache)
        self.backbone = Backbone(
            layers=config.layers,
            width=config.width,
            heads=config.heads,
            head_width=config.head_width,
            inner_width=config.inner_width,
            norm=config.norm,
            positions=config.positions,
            dropout=config.dropout,
        )
        self.reset_parameters()

    def extra_repr(self) -> str:
        """The sizes, above the modules that have them."""
        config = self.config
        parameters = sum(parameter.numel() for parameter in self.parameters())
        return (
            f"{config.layers} layers × {config.width}, vocabulary {config.vocabulary}, "
            f"memory {config.memory.size}, cache {config.cache}, {parameters:,} parameters"
        )

    def initial_state(self, batch: int) -> State:
        """The state before the first segment: initial memory, empty cache."""
        like, config = next(self.parameters()), self.config
        cached = torch.zeros(whole_number("batch", batch, zero=True), dtype=torch.long, device=like.device)
        empty = cached.to(like.dtype)[:, None, None].expand(-1, config.cache.rows, config.width)
        return State(self.memory.initial(batch), (empty,) * config.layers, cached)

    def empty_state(self, batch: int) -> State:
        """A state of zeros without parameters, for segments that `reset` all rows."""
        with torch.no_grad():
            return self.initial_state(batch).map(
                lambda tensor: torch.zeros_like(tensor[:1]).expand_as(tensor)
            )

    def forward(
        self,
        tokens: Tensor,
        state: State,
        lengths: Tensor | None = None,
        padding: Literal["right", "left"] = "right",
        attention: bool = False,
        reset: Tensor | None = None,
        targets: Tensor | None = None,
        capacities: tuple[int, ...] = (),
        predict: bool = True,
    ) -> Output:
        """Encode one segment (B, L) and predict from it.

        `lengths` (B,) makes the batch ragged: the other tokens of a row, on its `padding` side, do not
        exist. A row of no tokens keeps its state. `attention` also returns the attention weights. Rows
        where `reset` (B,) is true start from the initial state. `targets` (B, L) also gives their losses,
        from an adaptive softmax with `capacities` in shapes that do not depend on them. Where nothing is to
        `predict`, the logits are (B, 0, V) and only what the next state needs is computed.
        """
        require_segment(tokens, state, self.config)
        if targets is not None:
            targets = require_targets(targets, tokens)
            if not predict:
                raise ConfigError("targets were given where predict=False; leave one of them out")
        if reset is not None:
            require_reset(reset, tokens)
            state = self.initial_state(len(tokens)).where(reset, state)
        if tokens.shape[1] == 0:
            self.valid(tokens, lengths, padding)
            logits = self.embedding.logits(self.embedding(tokens))
            return Output(logits, state, (), None if targets is None else logits.new_zeros(targets.shape))
        encoded = self.encode(tokens, state, lengths, padding, attention, predict)
        predicted = self.predict(encoded.hidden, encoded.write, targets, capacities)
        return Output(predicted[0], encoded.state, encoded.attention if attention else (), *predicted[1:])

    def encode(
        self,
        tokens: Tensor,
        state: State,
        lengths: Tensor | None = None,
        padding: Literal["right", "left"] = "right",
        attention: bool = False,
        predict: bool = True,
    ) -> EncodedSegment:
        """Encode one segment (B, L) of at least one token, ragged as in `forward`.

        Where nothing is to `predict` from it, there are no hidden states.
        """
        require_segment(tokens, state, self.config)
        valid, spans = self.valid(tokens, lengths, padding), self.spans(tokens.shape[1])
        x = self.wrap(self.embedded(tokens), state)  # [H^mem ∘ H^0 ∘ H^mem]
        needed = spans if predict or self.memory.carries_read else spans._replace(read=0, tokens=0)
        layers = self.layer_memory(state, needed, spans)
        encoded = self.backbone(
            x,
            self.axis(spans, state, valid),
            cache=state.cache,
            attend=eager if attention else fused,
            last=needed.queries,
            around=layers,
        )
        read, hidden, write = needed.split(encoded.hidden)
        carried = self.memory.carry(read, write, layers.leaving if layers else state.carried)
        after = State(carried, *self.cache.push(state, encoded.layer_inputs, spans, valid))
        if lengths is not None:
            after = after.where(lengths > 0, state)
        return EncodedSegment(hidden if predict else hidden[:, :0], write, after, encoded.weights)

    def wrap(self, embedded: Tensor, state: State) -> Tensor:
        """(B, L, D) -> [read ∘ tokens ∘ write] (B, R+L+W, D)."""
        read, write = self.read_block(state), self.memory.write_block(state.carried)
        return cat_rows(read.to(embedded.dtype), embedded, write.to(embedded.dtype))

    def embedded(self, tokens: Tensor) -> Tensor:
        """The embeddings (B, L, D) of ids (B, L)."""
        try:
            rows: Tensor = self.embedding(tokens)
        except IndexError:
            raise unknown_ids(self.config.vocabulary) from None
        return rows

    def read_block(self, state: State) -> Tensor:
        """The block (B, R, D) in front of the tokens, of a state of this model."""
        require_carried(state, self.carried_names)
        read = self.memory.read_block(state.carried)
        return require_read_block(read, self.memory.read_size, self.config.width)

    def layer_memory(self, state: State, *spans: Spans) -> LayerMemory | None:
        """Memory in the layers, of the kinds that live there."""
        return LayerMemory(self.memory, state.carried, *spans) if self.memory.in_layers else None

    def predict(
        self, hidden: Tensor, write: Tensor, targets: Tensor | None, capacities: tuple[int, ...]
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Logits, losses and the loss of memory; without targets, logits only."""
        if targets is None:
            return self.embedding.logits(hidden), None, None
        try:
            logits, losses = self.embedding.scored(hidden, targets, capacities)
        except IndexError:
            raise unknown_ids(self.config.vocabulary, "targets") from None
        if not self.config.memory.predicts:
            return logits, losses, None
        special = torch.full(write.shape[:2], self.config.vocabulary - 1, device=write.device)
        last = (0,) * (len(self.config.cutoffs) - 1) + (special.numel(),)  # it is in the last cluster
        memory_losses = self.embedding.losses(write, special, last if capacities else ())
        return logits, losses, memory_losses.mean()

    def open(self, state: State, room: int = 0) -> OpenSegment:
        """A segment to be encoded piece by piece: `step(tokens)` …, then `close()` for the next state.

        Where so many tokens are to come without gradients, `room` for them saves copies of what is kept.
        """
        require_state(state)
        self.refuse_wrapped_distances("stepping through a segment")
        return OpenSegment(self, state, room)

    def spans(self, tokens: int, write: bool = True) -> Spans:
        """The spans of a segment of `tokens` tokens, with its write block or while that is still to come."""
        memory = self.memory
        return Spans(self.config.cache.rows, memory.read_size, tokens, memory.write_size if write else 0)

    def axis(self, spans: Spans, state: State, valid: Tensor | None) -> Axis:
        """The axis for attention."""
        return spans.axis(state.cached, valid, self.config.memory.sees_cache)

    def valid(self, tokens: Tensor, lengths: Tensor | None, padding: str) -> Tensor | None:
        """Which tokens of a ragged batch exist, (B, L); none when all do."""
        if padding not in ("right", "left"):
            raise ConfigError(f"padding={padding!r} is not right or left")
        if lengths is None:
            return None
        self.refuse_wrapped_distances("a ragged batch")
        require_lengths(lengths, tokens)
        column = torch.arange(tokens.shape[1], device=tokens.device)
        if padding == "left":
            column = column.flip(0)
        return column < lengths[:, None]

    def refuse_wrapped_distances(self, what: str) -> None:
        """Refuse what needs the read block to be independent of what comes after it."""
        if self.config.positions == "relative-lm-rmt":
            raise ConfigError(
                f"positions='relative-lm-rmt' cannot do {what}: the original's read block depends on the "
                "segment's length and write block; use positions='relative'"
            )

    def reset_parameters(self) -> None:
        """Draw the initial weights; memory has its own."""
        for name, parameter in self.named_parameters():
            if name.startswith("memory."):
                continue
            if name.endswith("norm.weight"):
                nn.init.normal_(parameter, 1.0, 0.02)
                continue
            deviation = initial_deviation(self.config.init, name, parameter)
            nn.init.normal_(parameter, 0.0, deviation) if deviation else nn.init.zeros_(parameter)


def initial_deviation(init: str, name: str, parameter: Tensor) -> float:
    """How far initial weights lie from zero: small as in Transformer-XL, or scaled.

    As the `identity`, layers add nothing at first: memory goes over borders as it is.
    """
    if init == "identity" and name.endswith(RESIDUAL_OUTPUTS):
        return 0.0
    if "projection" in name:  # of an adaptive softmax
        return 0.01
    if init != "small" and name.endswith("weight"):
        return float(parameter.shape[1] ** -0.5)
    return 0.02 if name.endswith(("weight", "content_bias", "position_bias")) else 0.0


def build_embedding(config: ModelConfig) -> TiedEmbedding | AdaptiveEmbedding:
    """One table for tokens in and out; with cutoffs, in clusters."""
    gained = config.output == "gained"
    if config.cutoffs:
        return AdaptiveEmbedding(config.vocabulary, config.width, config.cutoffs, config.div_val, gained)
    return TiedEmbedding(config.vocabulary, config.width, gained)
