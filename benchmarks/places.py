"""Where in a segment a copy goes wrong, and how far memory's slots stand from the tokens they keep.

    rmt train copy --segments 18 --length 720 --memory 120 --size paper --out runs/copy-720
    python benchmarks/places.py runs/copy-720 --figure places.png

Of sequences of the test split, whose inputs are the true ones: which answers are right, by the place of the
symbol in its segment of the source, and the places that fail in every segment. Then, of the heads that write
(slots look at tokens) and read (tokens look at slots), how many places away from its own number a slot looks,
and how many of the slots do so. A token whose slot would lie beyond the last one is not kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

import rmt
from rmt.analysis.capture import HeadIndex, SegmentAttention, capture_mean, passing
from rmt.analysis.operations import OPERATIONS
from rmt.tasks.copy import Copy
from rmt.train.config import build_task
from rmt.train.stored import load_config

SEQUENCES = 48
FAILS = 0.6  # a place with fewer right answers is one that fails
CLEAR = 0.5  # of its attention: what a slot or token gives to one place for it to count
HALF = 0.5  # of the rows: a head with fewer at one distance has no distance


class Distance(NamedTuple):
    """A head that looks so many places beyond the number of its own row, from `rows` of all `length` rows."""

    operation: str
    head: HeadIndex
    places: int
    rows: int
    length: int

    def __str__(self) -> str:
        return (
            f"{self.operation}, {self.head}: {self.rows} of {self.length} look {self.places:+d} places away"
        )


def right_by_place(model: rmt.SegmentModel, rows: Tensor, source: int, length: int) -> Tensor:
    """The share of right answers, (copies, source); `rows` (B, 1 + T) are whole sequences."""
    predicted = torch.cat([part.predicted for part in passing(model, rows[:, :-1], length)], 1)
    right = (predicted == rows[:, 1:])[:, source:].double().mean(0)
    return right.view(-1, source)


def distances(segment: SegmentAttention) -> list[Distance]:
    """The heads of a segment most of whose rows look clearly at one place, as far away as each other."""
    found = []
    for operation in ("write", "read"):
        block = segment.block(*OPERATIONS[operation])
        weight, place = block.max(-1)
        away = place - torch.arange(block.shape[-2])
        for layer, head in torch.cartesian_prod(*map(torch.arange, block.shape[:2])).tolist():
            clear = away[layer, head][weight[layer, head] > CLEAR]
            if not clear.numel():
                continue
            values, counts = clear.unique(return_counts=True)
            rows, commonest = int(counts.max()), int(values[counts.argmax()])
            if rows > HALF * block.shape[-2]:
                found.append(Distance(operation, HeadIndex(layer, head), commonest, rows, block.shape[-2]))
    return found


def failing(right: Tensor, length: int) -> list[str]:
    """A line for each copy: the places that fail in every segment of its source."""
    lines = []
    for number, copy in enumerate(right, 1):
        worst = torch.stack([part for part in copy.split(length) if len(part) == length]).amax(0)
        places = (worst < FAILS).nonzero().flatten().tolist()
        lines.append(
            f"- copy {number}: {copy.mean():.4f} right; fail in every segment: "
            + (f"places {', '.join(str(place + 1) for place in places)} of {length}" if places else "none")
        )
    return lines


def draw(path: Path, right: Tensor, length: int, segment: SegmentAttention, shown: Distance | None) -> None:
    """Right answers by place in a segment, and the attention of a head that writes."""
    from matplotlib import pyplot as plt

    figure, (left, other) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    whole = right[:, : right.shape[1] // length * length]
    left.plot(range(1, length + 1), whole.reshape(-1, length).mean(0), color="#0b62ad")
    left.set(xlabel="place in a segment of the source", ylabel="right answers", ylim=(0, 1.03))
    if shown:
        block = segment.block(*OPERATIONS[shown.operation])[shown.head]
        other.imshow(block, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
        other.set(title=f"{shown.head}", xlabel="token", ylabel="slot that is written")
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sequences", type=int, default=SEQUENCES)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args(arguments)
    config, model = load_config(options.run), rmt.load(options.run)
    task = build_task(config.task)
    if not isinstance(task, Copy):
        raise SystemExit(f"{options.run} is a run of {config.task.name}, not of copy")
    length = task.tokens_per_segment(config.task.segments)
    batch = task.beginning("test", options.sequences)
    rows = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
    right = right_by_place(model, rows, task.length, length)
    print("\n".join(failing(right, length)))
    parts = capture_mean(model, batch.tokens[:8], length)
    for number in (1, task.length // length + 1):  # in the source, in the answer
        print(f"\nsegment {number + 1}:")
        print("\n".join(f"- {found}" for found in distances(parts[number])) or "- no head has one distance")
    if options.figure:
        writes = [found for found in distances(parts[1]) if found.operation == "write"]
        draw(options.figure, right, length, parts[1], writes[0] if writes else None)


if __name__ == "__main__":
    main()
