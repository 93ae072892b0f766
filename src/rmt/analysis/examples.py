"""What to look at: an example of a task, or a text of one's own."""

# T tokens of all segments

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rmt.errors import ConfigError, unknown
from rmt.tasks.task import Task


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


def text_example(task: Task, text: str) -> Example:
    """A text in the task's own tokens, of any length: its next tokens are targets that nobody asked for."""
    tokens = parse(text, words(task))
    targets = torch.cat([tokens[1:], tokens[-1:]])  # the last place has none, and none is wanted anywhere
    return Example("your text", tokens, targets, torch.zeros(len(tokens), dtype=torch.bool))


def words(task: Task) -> list[str]:
    """What each token id looks like to a reader of the task."""
    return [task.render([token]) for token in range(task.vocabulary)]


def parse(text: str, known: list[str]) -> Tensor:
    """Token ids (T,) of words between spaces; of its characters, where these are all words by themselves."""
    numbers = {word: number for number, word in reversed(list(enumerate(known)))}
    given = text.split()
    if not all(word in numbers for word in given) and all(character in numbers for character in text):
        given = list(text)
    for word in given:
        if word not in numbers:
            raise unknown("token", word, filter(None, known))
    if not given:
        raise ConfigError(f"text={text!r} holds no token; give some of: {' '.join(filter(None, known[:20]))}")
    return torch.tensor([numbers[word] for word in given])
