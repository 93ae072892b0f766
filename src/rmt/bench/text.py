"""Made text: as many symbols as a real corpus has, and as uneven."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rmt.text.corpora import find_source
from rmt.text.prepare import prepare_corpus
from rmt.text.vocabulary import FILE, Words

EXPONENT = 1.2  # of 267,735 words, those beyond the 20,000 most frequent make up 5 % of a text


def made_text(symbols: int, folder: Path, count: int = 400_000) -> str:
    """A prepared corpus of words whose frequencies fall with their rank as those of a real text do."""
    prepared = folder / f"made-{symbols}"
    if not prepared.exists():
        words = [f"w{rank}" for rank in range(symbols - 1)]
        text = folder / f"text-{symbols}"
        text.mkdir(parents=True)
        Words(["<eos>", *words]).write(text / FILE)
        odds = np.arange(1, symbols) ** -EXPONENT
        drawn = np.random.default_rng(0).choice(len(words), count, p=odds / odds.sum())
        parts = np.split(drawn, [count * 10 // 12, count * 11 // 12])
        for split, part in zip(("train", "valid", "test"), parts, strict=True):
            (text / f"{split}.txt").write_text(" ".join(words[rank] for rank in part))
        prepare_corpus(find_source(str(text), "words"), prepared, vocabulary=text / FILE)
    return str(prepared)
