"""A made text in which memory helps: each word of a page is followed by the digit of that page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from rmt.experiments.cells import PlannedCell
from rmt.experiments.data_location import OUT, data_of
from rmt.store import write_whole
from rmt.text.corpora import find_source
from rmt.text.corpus import DESCRIPTION
from rmt.text.prepare import prepare_corpus

MADE_TEXT = f"{OUT}made-text"  # as the data of a cell
WORDS = [
    "river",
    "stone",
    "light",
    "cloud",
    "tower",
    "green",
    "apple",
    "winter",
    "table",
    "music",
    "paper",
    "garden",
    "silver",
    "mountain",
]
PAGES, WORDS_PER_PAGE = 1200, 14  # about 100 kB
SEED = 0


def made_text() -> str:
    """Pages of random words, each with a digit of its own."""
    generator = np.random.default_rng(SEED)
    words = generator.integers(len(WORDS), size=(PAGES, WORDS_PER_PAGE))
    digits = generator.integers(10, size=PAGES)
    return "".join(
        "".join(f"{WORDS[word]}{digit}" for word in page) + "\n"
        for page, digit in zip(words, digits, strict=True)
    )


@contextmanager
def made_text_at_hand(cells: Iterable[PlannedCell], folder: Path) -> Iterator[Path]:
    """A folder with the text, if any cell learns from it: that of the cells, or a temporary one before."""
    if (made_text_folder(folder) / DESCRIPTION).is_file():
        yield folder
        return
    with TemporaryDirectory() as temporary:
        write_made_text(cells, Path(temporary))
        yield Path(temporary)


def write_made_text(cells: Iterable[PlannedCell], folder: Path) -> None:
    """The text in the folder of cells, if any of them learns from it."""
    if any(data_of(cell.settings) == MADE_TEXT for cell in cells):
        prepare_made_text(made_text_folder(folder))


def made_text_folder(folder: Path) -> Path:
    """Where the text lies in a folder of cells."""
    return folder / MADE_TEXT.removeprefix(OUT)


def prepare_made_text(folder: Path) -> None:
    """The text as a corpus in a folder, unless it is there."""
    if (folder / DESCRIPTION).is_file():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_suffix(".txt")
    write_whole(file, made_text())
    prepare_corpus(find_source(str(file), "bytes"), folder)
