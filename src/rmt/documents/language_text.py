"""A text as tokens: spans to learn from, in an order that the seed alone decides, and rows to test on."""

# B sequences · T tokens of a sequence · L tokens of a segment

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.errors import DataError
from rmt.text.files import local_source, text_blocks


class LanguageText(NamedTuple):
    """The splits of a text as tokens."""

    splits: Mapping[str, Tensor]  # (tokens,) each

    @property
    def fingerprint(self) -> str:
        """The checksum of all tokens."""
        digest = hashlib.sha256()
        for split, tokens in sorted(self.splits.items()):
            digest.update(split.encode() + tokens.numpy().tobytes())
        return digest.hexdigest()

    def rows(self, split: str, length: int, most: int | None) -> Tensor:
        """Rows of length + 1 tokens, as many as a split has; the last token of one is the next's first."""
        tokens = self.splits[split]
        count = (len(tokens) - 1) // length
        if most is not None:
            count = min(count, max(1, most // length))
        if count < 1:
            raise DataError(
                f"{split}: {len(tokens)} tokens are fewer than the {length + 1} of one sequence; give a "
                "longer text, or fewer or shorter segments"
            )
        return tokens[: count * length + 1].unfold(0, length + 1, length)


class TrainingSpans:
    """Spans of a text in a random order, each once before any comes again, then cut at other places."""

    def __init__(self, tokens: Tensor, length: int, seed: int):
        self.tokens, self.length, self.seed = tokens, length, seed
        self.count = (len(tokens) - 1) // length - 1  # one less, since where they begin is moved
        if self.count < 1:
            raise DataError(
                f"train: {len(tokens)} tokens are fewer than two sequences of {length}; give a longer text, "
                "or fewer or shorter segments"
            )

    def rows(self, first: int, count: int) -> Tensor:
        """Spans number `first` on, (B, T + 1)."""
        starts = [self.start(number) for number in range(first, first + count)]
        return torch.stack([self.tokens[start : start + self.length + 1] for start in starts])

    def start(self, number: int) -> int:
        """Where a span begins."""
        offset, order = span_order(self.seed, number // self.count, self.count, self.length)
        return offset + order[number % self.count] * self.length


@lru_cache(maxsize=8)
def span_order(seed: int, pass_number: int, count: int, length: int) -> tuple[int, list[int]]:
    """Where the first of `count` spans begins in a pass over the text, and their order."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + pass_number)
    offset = int(torch.randint(length, (1,), generator=generator))
    return offset, torch.randperm(count, generator=generator).tolist()


def load_language_text(path: str, tokenizer: Any) -> LanguageText:
    """The tokens of a text file, cut 90/5/5, or of a folder with a file per split; no special ones."""
    splits = local_source(Path(path), "tokenizer").splits
    for split in ("train", "valid", "test"):
        if split not in splits:
            raise DataError(f"data={path!r} has no {split}.txt; add it, or name one file to be cut 90/5/5")
    return LanguageText(
        {
            split: torch.tensor(
                tokenizer(
                    "".join(block for span in spans for block in text_blocks(span)), add_special_tokens=False
                ).input_ids
            )
            for split, spans in splits.items()
        }
    )
