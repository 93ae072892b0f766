"""Where a trainer's segments come from: batches of sequences, or lanes of text that go on and on."""

# B rows of this process · L tokens of a segment · n segments

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class FeedItem(NamedTuple):
    """What a trainer works on at a time: `past` segments that can be replayed, and new ones behind them."""

    segments: list[Segment]
    counts: list[int]  # losses in each new segment, over all processes
    fresh: list[bool]  # whether any row of any process starts from the initial state there
    incoming: dict[int, State]  # states that segments start from
    length: int  # tokens of a segment; the last may have fewer
    samples: int  # sequences, or segments of lanes, over all processes

    @property
    def past(self) -> int:
        return len(self.segments) - len(self.counts)


class Feed(Protocol):
    """The source of what a trainer works on."""

    def capacities(self, cutoffs: Sequence[int]) -> tuple[int, ...]: ...

    def item(self, number: int) -> FeedItem: ...

    def done(self, item: FeedItem) -> None: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None: ...


class SequenceFeed:
    """Batches of whole sequences, each starting from the initial state."""

    def __init__(self, config: RunConfig, task: Task, curriculum: Curriculum, empty: State, rows: slice):
        self.config, self.curriculum, self.empty, self.rows = config, curriculum, empty, rows
        self.train_set = task.split("train") if config.task.source == "fixed" else None
        self.order = (-1, torch.empty(0))  # epoch, order of the fixed training set in it

    def capacities(self, cutoffs: Sequence[int]) -> tuple[int, ...]:
        """A slot for every position: sequences are drawn anew, so any number of targets may be in a tail."""
        longest = max(stage.length for stage in self.curriculum.stages)
        return (self.config.train.batch * longest,) * len(cutoffs)

    def item(self, number: int) -> FeedItem:
        """Batch `number`; the same again after a resume."""
        batch, length = self.batch(number), self.curriculum.stage.length
        counts = [int(part.sum()) for part in batch.loss_mask.split(length, dim=1)]
        segments = cut(Segment(*(column[self.rows] for column in batch[:3])), length)
        everyone = torch.ones(len(segments[0].tokens), dtype=torch.bool)
        segments[0] = segments[0]._replace(reset=everyone)
        fresh = [True] + [False] * (len(segments) - 1)
        return FeedItem(segments, counts, fresh, {0: self.empty}, length, self.config.train.batch)

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

    def done(self, item: FeedItem) -> None:
        """Sequences leave nothing behind."""

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None:
        """There is nothing to go on from."""


class LaneFeed:
    """Lanes of text: the state behind a segment is the state before the next.

    Rows are reset at the start of every pass through the text, and as `task.reset` says. A pass ends with
    the last whole segment.
    """

    def __init__(self, config: RunConfig, task: Text, curriculum: Curriculum, empty: State, rows: slice):
        self.lanes, self.rows = task.lanes("train", config.train.batch), rows
        self.length, self.reset = curriculum.stage.length, config.task.reset
        self.segments_per_pass = (self.lanes.length - 1) // self.length
        if self.segments_per_pass < 1:
            raise ConfigError(
                f"task.segment_length={self.length} is more than a lane has: {self.lanes.length - 1} tokens "
                f"to predict; use fewer lanes than train.batch={config.train.batch}, or shorter segments"
            )
        depth = int(config.bptt.depth)
        chunked = config.bptt.schedule == "chunked"
        self.new, self.kept = (depth + 1, 0) if chunked else (1, depth)  # segments of an item
        self.past: list[Segment] = []
        self.incoming = {0: empty}

    def capacities(self, cutoffs: Sequence[int]) -> tuple[int, ...]:
        """The most targets that each tail of an adaptive softmax has in any segment."""
        return self.lanes.capacities(self.length, cutoffs)

    def item(self, number: int) -> FeedItem:
        """The next segments, and what is kept of those before them."""
        numbers = range(number * self.new, (number + 1) * self.new)
        new = [self.segment(index) for index in numbers]
        first = number * self.new - len(self.past)
        fresh = [bool(self.resets(index).any()) for index in range(first, numbers.stop)]
        counts = [self.lanes.batch * self.length] * self.new
        samples = self.lanes.batch * self.new
        return FeedItem(self.past + new, counts, fresh, self.incoming, self.length, samples)

    def segment(self, index: int) -> Segment:
        """Segment `index`, counted over all passes, of the rows of this process."""
        tokens, targets = map(
            torch.from_numpy, self.lanes.segment(index % self.segments_per_pass, self.length)
        )
        mask = torch.ones_like(targets, dtype=torch.bool)
        return Segment(tokens[self.rows], targets[self.rows], mask[self.rows], self.resets(index)[self.rows])

    def resets(self, index: int) -> Tensor:
        """Which rows of all processes start from the initial state at a segment, (B,)."""
        index %= self.segments_per_pass
        everyone = torch.ones(self.lanes.batch, dtype=torch.bool)
        if index == 0:
            return everyone
        if self.reset == "document":
            return torch.from_numpy(self.lanes.documents(index, self.length))
        return everyone & (self.reset != "never" and index % int(self.reset) == 0)

    def done(self, item: FeedItem) -> None:
        """Keep the state behind an item and what later windows can be replayed from."""
        dropped = len(item.segments) - min(self.kept, len(item.segments))
        self.past = item.segments[dropped:]
        forget(item.incoming, dropped)
        self.incoming = {index - dropped: state for index, state in item.incoming.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """The states at the borders; the text itself can be read again."""
        return {
            f"stream.{index}.{name}": tensor
            for index, state in self.incoming.items()
            for name, tensor in state.named().items()
        }

    def load_state_dict(self, saved: dict[str, Tensor], number: int) -> None:
        """Go on before item `number`."""
        empty = next(iter(self.incoming.values()))
        past = sum(key.endswith(".cached") for key in saved) - 1
        self.past = [self.segment(index) for index in range(number * self.new - past, number * self.new)]
        device = empty.cached.device
        self.incoming = {
            index: empty.unflatten(saved[f"stream.{index}.{name}"].to(device) for name in empty.named())
            for index in range(past + 1)
        }


FEEDS: dict[str, Callable[..., Feed]] = {"sequences": SequenceFeed, "lanes": LaneFeed}


def build_feed(config: RunConfig, task: Task, curriculum: Curriculum, empty: State, rows: slice) -> Feed:
    """What a task's layout is fed by, for the `rows` of this process, which start from an `empty` state."""
    return FEEDS[task.layout](config, task, curriculum, empty, rows)
