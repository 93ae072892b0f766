"""Where texts are prepared that nobody named a folder for: below `data`, by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from rmt.errors import DataError
from rmt.seal import checksum
from rmt.text.corpora import CORPORA
from rmt.text.corpus import DESCRIPTION, Corpus, open_corpus
from rmt.text.files import Source

HOME = Path("data")
DIGITS = 8  # of a checksum, that tell texts of one name apart


def usual_folder(source: Source) -> Path:
    """The folder of a text's name and, where a text of another place has that, of its checksum besides."""
    folder = HOME / f"{source.name}-{source.tokens}"
    if source.known or not (folder / DESCRIPTION).is_file():
        return folder
    described = open_corpus(folder).description["sources"]
    if resolved(described) == resolved(source.files):
        return folder
    sums = [checksum(file) for file in source.files]
    if sums == list(described.values()):  # the same text, moved
        return folder
    content = sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
    return folder.with_name(f"{folder.name}-{content[:DIGITS]}")


def prepared_before(data: Path, tokens: str) -> Corpus | None:
    """What was prepared of a text that is gone, if it is there and was of this very path."""
    if str(data) in CORPORA or data.exists():
        return None
    folders = [path.parent for path in HOME.glob(f"*-{tokens}*/{DESCRIPTION}")]
    corpora = [corpus for folder in folders for corpus in whole(folder) if was_made_of(corpus, data, tokens)]
    return corpora[0] if len(corpora) == 1 else None


def whole(folder: Path) -> list[Corpus]:
    """The corpus in a folder, or nothing where it is damaged."""
    try:
        return [open_corpus(folder)]
    except DataError:
        return []


def was_made_of(corpus: Corpus, data: Path, tokens: str) -> bool:
    """Whether a corpus was prepared, as usual, of the text at a path, a file or a folder of files."""
    described, path = corpus.description, data.resolve()
    usual = described["tokens"] == tokens and not described.get("given_vocabulary")
    return usual and all(path in (file, *file.parents) for file in resolved(described["sources"]))


def resolved(files: Iterable[str | Path]) -> set[Path]:
    """Paths that can be compared."""
    return {Path(file).resolve() for file in files}
