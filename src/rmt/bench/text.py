"""Made text: as many symbols as a real corpus has, and as uneven."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rmt.tasks.corpora import find_source
from rmt.tasks.prepare import FILE, prepare_corpus
from rmt.tasks.vocabulary import Words

COUNT = 400_000  # tokens


def made_text(symbols: int, folder: Path, count: int = COUNT) -> str:
    """A prepared corpus of words whose frequencies fall as 1/rank: more rare ones than a real text has."""
    place = folder / f"made-{symbols}"
    if not place.exists():
        words = [f"w{rank}" for rank in range(symbols - 1)]
        text = folder / f"text-{symbols}"
        text.mkdir(parents=True)
        Words(["<eos>", *words]).write(text / FILE)
        odds = 1 / np.arange(1, symbols)
        drawn = np.random.default_rng(0).choice(len(words), count, p=odds / odds.sum())
        parts = np.split(drawn, [count // 2, count * 3 // 4])
        for split, part in zip(("train", "valid", "test"), parts, strict=True):
            (text / f"{split}.txt").write_text(" ".join(words[rank] for rank in part))
        prepare_corpus(find_source(str(text), "words"), place, vocabulary=text / FILE)
    return str(place)
