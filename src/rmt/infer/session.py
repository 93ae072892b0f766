"""Endless input, constant memory: a session takes pieces of any size, and generates, segment by segment.

Between two calls it holds the state before the open segment, that segment's token ids, keys and values, the
last hidden state and two sums for the running perplexity; nothing is kept per token. A batch of sessions is
one session whose rows are at places of their own.
"""

# B batch · n tokens of a piece · w tokens encoded at once · D width · V vocabulary

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rmt.core.inputs import whole_number
from rmt.core.state import State
from rmt.errors import ConfigError, DataError, shown
from rmt.infer.endings import endings
from rmt.infer.finite import require_finite
from rmt.infer.rows import OpenRows
from rmt.infer.sampling import Sampling, generators_of, sample
from rmt.infer.saved import SessionContents, load_session, write_session
from rmt.infer.sources import TokenRows, pieces
from rmt.infer.work import inference
from rmt.nn.widest import widest
from rmt.precision import precision_for

RETURNS = ("nothing", "log_probs", "hidden")
NO_TOKEN = -1  # what a row of a batch generates when it has stopped


class Score(NamedTuple):
    """How well a session's model predicted what it was fed with, all rows together."""

    tokens: int  # predicted: all but the first of each row, and none that the session generated itself
    loss: float  # mean, in nats
    perplexity: float
    bits: float  # per token


class Session:
    """A model, the state it is in, and the segment it is in."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        segment_length: int | None = None,
        batch: int = 1,
        precision: str = "auto",
    ):
        """`precision` is 32-true, bf16-mixed or 64-true.

        Auto: products of a float32 model are in bfloat16 on a GPU that has it; else all is as the model is.
        """
        require_streamable(model)
        batch = whole_number("batch", batch)
        length, like = length_of(model, segment_length), next(model.parameters()).detach()
        self.model, self.tokenizer, self.segment_length, self.batch = model, tokenizer, length, batch
        self.precision = precision_for(precision, like)
        self.note: dict[str, Any] = {}  # what was saved beside it
        with inference(model):
            state = model.initial_state(batch)
        zeros = torch.zeros(batch, dtype=torch.long)
        self.begin(
            SessionContents(
                state=state.map(torch.clone),
                open=torch.zeros(batch, 0, dtype=torch.long),
                length=zeros,
                last=like.new_zeros(batch, model.memory.width),
                seen=zeros,
                scored=zeros,
                loss=zeros.to(state.cached.device, widest(state.cached.device)),
            )
        )

    def __repr__(self) -> str:
        """What it reads with, how far it is, and what it holds, in a line."""
        rows = f"batch {self.batch}, " if self.batch > 1 else ""
        return (
            f"Session({type(self.model).__name__}, segments of {self.segment_length}, {rows}"
            f"{int(self.seen.sum()):,} tokens read, {self.state})"
        )

    def begin(self, contents: SessionContents) -> None:
        """Go on from what a session holds between two calls."""
        self.rows = OpenRows(self.model, contents, self.segment_length, self.precision)

    def feed(
        self, source: Any, returns: Literal["nothing", "log_probs", "hidden"] = "nothing"
    ) -> Tensor | None:
        """Read tokens, text, a file, or an iterator of these.

        On request, returns the log-probability (B, n) that each token had before it was read, or its hidden
        state (B, n, D): NaN where a row has no token, and for the very first, which nothing predicted.
        """
        if returns not in RETURNS:
            raise ConfigError(f"returns={returns!r} is not one of {', '.join(RETURNS)}")
        results = []
        for piece in pieces(source, self.tokenizer, self.batch):
            piece = piece._replace(tokens=piece.tokens.cpu())
            require_known(piece, self.model, self.seen)
            result = self.advance(piece, returns)
            if returns != "nothing":
                results.append(result)
        if returns == "nothing":
            return None
        empty = self.last[:, None][:, :0] if returns == "hidden" else self.last[:, :0]
        return torch.cat(results, dim=1) if results else empty

    def generate(
        self,
        max_new_tokens: int | None = None,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int | None = None,
        stop: Any = None,
    ) -> Iterator[Tensor]:
        """Tokens (B,) one after the other, each read before the next is drawn; endless if no number is given.

        A row ends with what is named in `stop` (an id, a text, or several of them); in a batch it gives -1
        from there on. Row b draws what a session of one row draws with `seed` + b.
        """
        sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
        generators = generators_of(seed, self.batch)
        stops = endings(stop, self.tokenizer, vocabulary_of(self.model))
        if max_new_tokens is not None:
            max_new_tokens = whole_number("max_new_tokens", max_new_tokens, zero=True)
        if not bool((self.seen > 0).all()):
            raise ConfigError("a session that has read nothing has nothing to go on; feed it a prompt first")
        return self.draw(max_new_tokens, sampling, generators, stops)

    def draw(
        self,
        count: int | None,
        sampling: Sampling,
        generators: Sequence[torch.Generator],
        stops: list[Tensor],
    ) -> Iterator[Tensor]:
        """The iterator behind `generate`."""
        running = torch.ones(self.batch, dtype=torch.bool)
        longest = max((len(stop) for stop in stops), default=0)
        recent = torch.full((self.batch, longest), NO_TOKEN)
        while bool(running.any()) and (count is None or count > 0):
            token = sample(self.logits(), sampling, generators).where(running, NO_TOKEN)
            self.advance(TokenRows(token.clamp(min=0)[:, None], running.long()), "nothing", scores=False)
            recent = torch.cat([recent, token[:, None]], dim=1)[:, 1:] if longest else recent
            for stop in stops:
                running = running & (recent[:, longest - len(stop) :] != stop).any(1)
            count = None if count is None else count - 1
            yield token

    def logits(self) -> Tensor:
        """What the model expects next, (B, V)."""
        with inference(self.model, self.precision):
            logits: Tensor = self.model.embedding.logits(self.last)
        require_finite(logits, "logits")
        return logits

    def score(self) -> Score:
        """Running perplexity of everything that was fed."""
        tokens = int(self.scored.sum())
        loss = float(self.loss.sum()) / tokens if tokens else math.nan
        return Score(tokens, loss, math.exp(min(loss, 700.0)), loss / math.log(2))

    def close(self) -> State:
        """End the open segments before they are full, as at the end of a document; returns the state."""
        rows = self.rows.fork()
        rows.close(rows.length > 0)
        rows.require_finite()
        self.rows = rows
        return self.state

    def fork(self) -> Session:
        """A session that goes on from here by itself; no tensor is copied, since none is overwritten."""
        other = copy(self)
        other.note = deepcopy(self.note)
        return other

    def save(self, path: str | Path, note: dict[str, Any] | None = None) -> None:
        """Write the session to one file, whole or not at all; `note` is kept beside it."""
        write_session(Path(path), self.contents, self.model, self.segment_length, note or {})

    @classmethod
    def load(cls, path: str | Path, model: Any, tokenizer: Any = None, precision: str = "auto") -> Session:
        """The session in a file, for the model it was saved with; any other model is refused."""
        contents, segment_length, note = load_session(Path(path), model)
        session = cls(model, tokenizer, segment_length, len(contents.length), precision)
        session.begin(contents.to(session.state.cached.device))
        session.note = note
        return session

    @property
    def contents(self) -> SessionContents:
        """All that is saved: keys and values can be computed from it."""
        return self.rows.contents

    @property
    def last(self) -> Tensor:
        """The hidden state of each row's last token (B, D): what predicts the next."""
        return self.rows.last

    @property
    def seen(self) -> Tensor:
        """How many tokens each row was fed with (B,), on the CPU."""
        return self.rows.seen

    @property
    def scored(self) -> Tensor:
        """How many of them were predicted (B,), on the CPU."""
        return self.rows.scored

    @property
    def loss(self) -> Tensor:
        """The sum of their losses (B,), float64."""
        return self.rows.loss

    @property
    def state(self) -> State:
        """The state before the open segment: memory and cache."""
        return self.rows.state

    @property
    def nbytes(self) -> int:
        """Bytes of all that the session holds, keys and values of the open segment included."""
        return self.rows.nbytes

    def advance(self, piece: TokenRows, returns: str, scores: bool = True) -> Tensor:
        """Encode a piece; what was asked for (B, n, …). Tokens that the session drew are not scored.

        Whether all of it was a number is asked once, at its end; if not, the session stays as it was.
        """
        rows = self.rows.fork()
        result = rows.advance(piece, returns, scores)
        rows.require_finite()
        self.rows = rows
        return result


def require_streamable(model: Any) -> None:
    """Refuse what cannot be read with segment by segment, such as a path or an encoder."""
    if not all(hasattr(model, name) for name in ("parameters", "initial_state", "open", "embedding")):
        name = shown(model) if isinstance(model, str) else type(model).__name__
        raise ConfigError(
            f"model={name} cannot be streamed with; give an rmt.SegmentModel, rmt.load(RUN), or a decoder "
            "with memory (rmt.add_memory)"
        )


def length_of(model: Any, segment_length: int | None) -> int:
    """Tokens per segment: as given, as a wrapped model has it in its settings, or a loaded one of its run."""
    longest = getattr(getattr(model, "settings", None), "segment_length", None)
    usual = getattr(model, "segment_length", None) if longest is None else longest
    length = usual if segment_length is None else segment_length
    if length is None:
        raise ConfigError(
            "segment_length is missing: name the tokens per segment that the model was trained with"
        )
    length = whole_number("segment_length", length)
    if longest is not None and length > longest:
        raise ConfigError(f"segment_length={length} is more than the model's own {longest}; leave it out")
    return length


def vocabulary_of(model: Any) -> int:
    """How many ids a model has embeddings for."""
    config = model.config
    return int(config.vocabulary if hasattr(config, "vocabulary") else config.vocab_size)


def require_known(piece: TokenRows, model: Any, seen: Tensor) -> None:
    """Refuse ids that the model has no embedding for."""
    size, tokens = vocabulary_of(model), piece.tokens
    exists = torch.arange(tokens.shape[1]) < piece.lengths[:, None]
    strange = exists & ((tokens < 0) | (tokens >= size))
    if bool(strange.any()):
        row, column = strange.nonzero()[0].tolist()
        raise DataError(
            f"token {int(tokens[row, column])} at place {int(seen[row]) + column} is not in the model's "
            f"vocabulary; ids are 0 to {size - 1}"
        )
