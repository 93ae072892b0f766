"""Where a trainer's segments come from: batches of documents, or lanes of text that go on and on."""

# B rows of this process · L tokens of a segment · n segments

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rmt.core.bptt import forget
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.tasks.segments import Segment, cut
from rmt.tasks.task import Batch, Task
from rmt.text.task import Text
from rmt.train.config import RunConfig
from rmt.train.curriculum import Curriculum


class Piece(NamedTuple):
    """What a trainer works on at a time: `past` segments that can be replayed, and new ones behind them."""

    segments: list[Segment]
    counts: list[int]  # losses in each new segment, over all processes
    fresh: list[bool]  # whether any row of any process starts from the initial state there
    incoming: dict[int, State]  # states that segments start from
    length: int  # tokens of a segment; the last may have fewer

    @property
    def past(self) -> int:
        return len(self.segments) - len(self.counts)


class Feed(Protocol):
    """The source of pieces."""

    def piece(self, number: int) -> Piece: ...

    def done(self, piece: Piece) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None: ...


class Documents:
    """Batches of whole sequences, each starting from the initial state."""

    def __init__(self, config: RunConfig, task: Task, curriculum: Curriculum, empty: State, rows: slice):
        self.config, self.curriculum, self.empty, self.rows = config, curriculum, empty, rows
        self.train_set = task.split("train") if config.task.source == "fixed" else None
        self.order = (-1, torch.empty(0))  # epoch, order of the fixed training set in it

    def piece(self, number: int) -> Piece:
        """Batch `number`; the same again after a resume."""
        batch, length = self.batch(number), self.curriculum.stage.length
        counts = [int(part.sum()) for part in batch.loss_mask.split(length, dim=1)]
        segments = cut(Segment(*(column[self.rows] for column in batch[:3])), length)
        everyone = torch.ones(len(segments[0].tokens), dtype=torch.bool)
        segments[0] = segments[0]._replace(reset=everyone)
        fresh = [True] + [False] * (len(segments) - 1)
        return Piece(segments, counts, fresh, {0: self.empty}, length)

    def batch(self, number: int) -> Batch:
        """Batch `number` of all processes."""
        size = self.config.train.batch
        if self.train_set is None:
            return self.curriculum.stage.task.fresh(size, number, self.config.seed)
        count, total = torch.arange(number * size, (number + 1) * size), len(self.train_set.tokens)
        rows, epochs = count % total, count // total
        if self.config.task.shuffle:
            orders = [self.shuffled(int(epoch), total)[rows[epochs == epoch]] for epoch in epochs.unique()]
            rows = torch.cat(orders)
        return Batch(*(column[rows] for column in self.train_set))

    def shuffled(self, epoch: int, total: int) -> Tensor:
        """The order of the fixed training set in an epoch, kept until the next is asked for."""
        if self.order[0] != epoch:
            generator = torch.Generator().manual_seed(self.config.seed * 1_000_003 + epoch)
            self.order = (epoch, torch.randperm(total, generator=generator))
        return self.order[1]

    def done(self, piece: Piece) -> None:
        """Documents leave nothing behind."""

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None:
        """There is nothing to go on from."""


class Stream:
    """Lanes of text: the state behind a segment is the state before the next.

    Rows are reset at the start of every pass through the text, and as `task.reset` says. A pass ends with
    the last whole segment.
    """

    def __init__(self, config: RunConfig, task: Text, empty: State, rows: slice):
        self.lanes, self.rows = task.lanes("train", config.train.batch), rows
        self.length, self.reset = config.task.segment_length, config.task.reset
        self.whole = (self.lanes.length - 1) // self.length  # segments of a pass
        if self.whole < 1:
            raise ConfigError(
                f"task.segment_length={self.length} is more than a lane has: {self.lanes.length - 1} tokens "
                f"to predict; use fewer lanes than train.batch={config.train.batch}, or shorter segments"
            )
        depth = int(config.bptt.depth)
        chunked = config.bptt.schedule == "chunked"
        self.new, self.kept = (depth + 1, 0) if chunked else (1, depth)  # segments of a piece
        self.past: list[Segment] = []
        self.incoming = {0: empty}

    def piece(self, number: int) -> Piece:
        """The next segments, and what is kept of those before them."""
        numbers = range(number * self.new, (number + 1) * self.new)
        new = [self.segment(place) for place in numbers]
        first = number * self.new - len(self.past)
        fresh = [bool(self.resets(place).any()) for place in range(first, numbers.stop)]
        counts = [self.lanes.batch * self.length] * self.new
        return Piece(self.past + new, counts, fresh, self.incoming, self.length)

    def segment(self, place: int) -> Segment:
        """Segment `place`, counted over all passes, of the rows of this process."""
        tokens, targets = map(torch.from_numpy, self.lanes.segment(place % self.whole, self.length))
        mask = torch.ones_like(targets, dtype=torch.bool)
        return Segment(tokens[self.rows], targets[self.rows], mask[self.rows], self.resets(place)[self.rows])

    def resets(self, place: int) -> Tensor:
        """Which rows of all processes start from the initial state at a segment, (B,)."""
        place %= self.whole
        everyone = torch.ones(self.lanes.batch, dtype=torch.bool)
        if place == 0:
            return everyone
        if self.reset == "document":
            return torch.from_numpy(self.lanes.documents(place, self.length))
        return everyone & (self.reset != "never" and place % int(self.reset) == 0)

    def done(self, piece: Piece) -> None:
        """Keep the state behind a piece and what later windows can be replayed from."""
        dropped = len(piece.segments) - min(self.kept, len(piece.segments))
        self.past = piece.segments[dropped:]
        forget(piece.incoming, dropped)
        self.incoming = {index - dropped: state for index, state in piece.incoming.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """The states at the borders; the text itself can be read again."""
        return {
            f"stream.{index}.{name}": tensor
            for index, state in self.incoming.items()
            for name, tensor in state.named().items()
        }

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None:
        """Go on before piece `number`."""
        empty = next(iter(self.incoming.values()))
        past = sum(key.endswith(".cached") for key in saved) - 1
        self.past = [self.segment(place) for place in range(number * self.new - past, number * self.new)]
        device = empty.cached.device
        self.incoming = {
            index: empty.unflatten(saved[f"stream.{index}.{name}"].to(device) for name in empty.named())
            for index in range(past + 1)
        }
