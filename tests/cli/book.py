"""A book to train on, and a run of a second."""

import random
from pathlib import Path

TRAIN = (
    "train text --data book.txt --memory 2 --batch 4 --steps 4 --device cpu --model.layers 1 --model.heads 1 "
    "--model.head_width 4 --model.width 8 --model.inner_width 8 --task.segment_length 8 "
    "--train.evaluate_every 2 --train.log_every 1"
)


def write_book() -> None:
    """A text of 2,000 bytes in the working folder: 1,800 to train on, 100 each to validate and test."""
    words = random.Random(0).choices(
        ["the", "of", "and", "to", "in", "a", "is", "that", "it", "was", "for", "on", "are", "as"], k=900
    )
    Path("book.txt").write_text(" ".join(words).replace("the ", "the\n")[:2000])
