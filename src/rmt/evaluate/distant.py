"""How often a question is answered when its facts are any number of tokens away, in constant memory."""

# B batch · n tokens of a block

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.infer.session import Session
from rmt.tasks.memory_qa import MemoryQA
from rmt.tasks.scatter import Scattered

BLOCK = 64  # segments that are written out at a time


def distant_accuracy(
    model: SegmentModel,
    task: MemoryQA,
    segment_length: int,
    *,
    split: str = "test",
    samples: int = 100,
    batch: int = 50,
    precision: str = "auto",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The share of the first `samples` questions of a split that are answered right.

    Examples are never written out: sessions read them block by block, so a million tokens need no more
    memory than a thousand. The precision is that of a session.
    """
    if not 1 <= samples <= task.sizes[split]:
        raise ConfigError(f"samples={samples} must be 1 to {task.sizes[split]}, the size of split {split!r}")
    right = 0
    for start in range(0, samples, batch):
        examples = [task.example(split, number) for number in range(start, min(start + batch, samples))]
        right += answered(model, examples, segment_length, precision)
        progress(start + len(examples), samples)
    return right / samples


def answered(
    model: SegmentModel, examples: list[Scattered], segment_length: int, precision: str = "auto"
) -> int:
    """How many examples of one length are answered right."""
    session = Session(model, None, segment_length, len(examples), precision)
    rows = [blocks(example.pieces(), BLOCK * segment_length) for example in examples]
    for block in zip(*rows, strict=True):
        session.feed(np.stack(block))
    answers = torch.tensor([example.story.answer for example in examples])
    return int((session.logits().argmax(-1).cpu() == answers).sum())


def blocks(pieces: Iterator[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Pieces of any size as blocks of `size` tokens; the last is what is left."""
    kept, count = [], 0
    for piece in pieces:
        kept.append(piece)
        count += len(piece)
        while count >= size:
            whole = np.concatenate(kept)
            yield whole[:size]
            kept, count = [whole[size:]], count - size
    if count:
        yield np.concatenate(kept)
