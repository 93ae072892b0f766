"""What to look at: an example of a task, or a text of one's own."""

# T tokens of all segments

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.errors import ConfigError
from rmt.tasks.task import Task
from rmt.tasks.tokenizer import TaskTokenizer


class Example(NamedTuple):
    """One sequence to look at, and what was wanted of it."""

    name: str
    tokens: Tensor  # (T,)
    targets: Tensor  # (T,) the next token at each place
    wanted: Tensor  # (T,) bool, where the target is a question put to the model


def task_examples(task: Task, split: str, first: int, count: int) -> list[Example]:
    """The examples number `first` to `first + count - 1` of a split, counted from 1."""
    if first < 1:
        raise ConfigError(f"example={first} must be at least 1")
    batch = task.split(split, first + count - 1)
    return [
        Example(f"{split} example {number}", *(column[number - 1] for column in batch[:3]))
        for number in range(first, first + count)
    ]


def text_example(tokenizer: TaskTokenizer, text: str) -> Example:
    """A text of any length: its next tokens are targets that nobody asked for."""
    tokens = torch.tensor(tokenizer.encode(text), dtype=torch.long)
    if not len(tokens):
        known = " ".join(symbol for symbol in tokenizer.shown()[:20] if symbol.strip())
        raise ConfigError(f"text={text!r} holds no token; give some of: {known}")
    targets = torch.cat([tokens[1:], tokens[-1:]])  # the last place has none, and none is wanted anywhere
    return Example("your text", tokens, targets, torch.zeros(len(tokens), dtype=torch.bool))
