"""What a run of retrieval answers where it is wrong: other pairs' values, and whose.

    rmt train retrieval --segments 3 --memory 3 --size paper --out runs/retrieval
    python benchmarks/confusions.py runs/retrieval

Of the test split: how many wrong answers are values of the same sequence; how many are right by the place of
the pair that is asked for; and whether it depends on letters: χ² over its degrees of freedom is about 1 if
every letter is as hard to ask for, or to be mistaken for, as any other. It ends with the letters that are
mistaken most often, and for which.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import rmt
from rmt.evaluate.generate import generate
from rmt.tasks.retrieval import CHARACTERS, FIRST_KEY
from rmt.train.config import build_task
from rmt.train.stored import load_config

BATCH = 500  # sequences at a time
LISTED = 8  # pairs of letters


class Answers(NamedTuple):
    """The answers of a run, (N, …), N sequences of P pairs."""

    keys: np.ndarray  # (N, P) token ids of letters
    values: np.ndarray  # (N, P)
    asked: np.ndarray  # (N,) the number of the pair that is asked for
    answer: np.ndarray  # (N,)

    @property
    def right(self) -> np.ndarray:
        """(N,)"""
        return self.answer == np.take_along_axis(self.values, self.asked[:, None], 1)[:, 0]

    @property
    def mistaken(self) -> np.ndarray:
        """(N, P) where a wrong answer is the value of another pair."""
        return (self.values == self.answer[:, None]) & ~self.right[:, None]


def load_answers(run: Path, device: str) -> Answers:
    """What a run answers in the test split."""
    config = load_config(run)
    if config.task.name != "retrieval":
        raise SystemExit(f"{run} is a run of {config.task.name}, not of retrieval")
    task, model = build_task(config.task), rmt.load(run).to(device).eval()
    batch, length = task.split("test"), task.tokens_per_segment(config.task.segments)
    predictions = [
        generate(model, tokens.to(device), mask.to(device), length)[:, -1].cpu()
        for tokens, mask in zip(batch.tokens.split(BATCH), batch.loss_mask.split(BATCH), strict=True)
    ]
    tokens = batch.tokens.numpy()
    keys, values = tokens[:, :-2:2], tokens[:, 1:-2:2]
    asked = (keys == tokens[:, -2:-1]).argmax(1)
    return Answers(keys, values, asked, torch.cat(predictions).numpy())


def dependence(happened: np.ndarray, letters: np.ndarray) -> float:
    """χ² over its degrees of freedom of how often something happened (N,), letter by letter (N,)."""
    count = np.bincount(letters - FIRST_KEY, minlength=len(CHARACTERS) - FIRST_KEY)
    seen = np.bincount(letters - FIRST_KEY, weights=happened, minlength=len(count))
    share = happened.mean()
    if share in (0.0, 1.0):
        return 0.0
    present = count > 0
    expected = count[present] * share
    squares = (seen[present] - expected) ** 2 / (expected * (1 - share))
    return float(squares.sum() / (present.sum() - 1))


def report(answers: Answers) -> list[str]:
    """The lines of the page."""
    right, mistaken = answers.right, answers.mistaken
    rows = np.arange(len(right))
    asked_key = answers.keys[rows, answers.asked]
    other_pairs = np.ones_like(mistaken)
    other_pairs[rows, answers.asked] = False
    wrong = ~right
    right_by_place = [right[answers.asked == number].mean() for number in range(answers.keys.shape[1])]
    by_mistaken = dependence(mistaken[other_pairs], answers.keys[other_pairs])
    lines = [
        f"- {right.mean():.4f} of {len(right):,} answers are right; of {wrong.sum():,} wrong ones "
        f"{mistaken.any(1).sum():,} are values of other pairs",
        "- right by the place of the pair that is asked for: "
        + ", ".join(f"{share:.4f}" for share in right_by_place),
        "- taken for the right one, by place: "
        + ", ".join(f"{share:.4f}" for share in mistaken.sum(0) / len(right)),
        f"- χ² over its degrees of freedom: {dependence(wrong, asked_key):.1f} by the letter asked for, "
        f"{by_mistaken:.1f} by the letter whose value is given instead",
        "",
        "| asked for | answered for | times | of so many meetings |",
        "|---|---|---|---|",
    ]
    meetings: dict[tuple[int, int], list[int]] = {}
    for row, number in zip(*np.nonzero(other_pairs), strict=True):
        pair = meetings.setdefault((int(asked_key[row]), int(answers.keys[row, number])), [0, 0])
        pair[0] += int(mistaken[row, number])
        pair[1] += 1
    worst = sorted(meetings.items(), key=lambda item: (-item[1][0], item[0]))[:LISTED]
    lines += [
        f"| {CHARACTERS[asked]} | {CHARACTERS[other]} | {times} | {met} |"
        for (asked, other), (times, met) in worst
        if times
    ]
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    for run in options.runs:
        print(f"## {run}\n")
        print("\n".join(report(load_answers(run, options.device))) + "\n")


if __name__ == "__main__":
    main()
