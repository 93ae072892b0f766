"""Where texts are prepared that nobody named a folder for: below `data`, by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from rmt.errors import DataError
from rmt.jsonfile import parse_json
from rmt.seal import checksum
from rmt.text.corpora import CORPORA
from rmt.text.corpus import DESCRIPTION, Corpus, open_corpus
from rmt.text.files import Source
from rmt.text.prepare import OtherText, prepare_corpus

HOME = Path("data")
DIGITS = 8  # of a checksum, that tell texts of one name apart
OCCURRING = "-occurring"  # behind the name of a folder: only bytes that occur have an id


def usual_folder(source: Source) -> Path:
    """The folder of a text; one apart for bytes that occur, unless release 0.1.0 prepared them there."""
    folder = folder_of_text(source)
    if source.known or not source.occurring or source.tokens != "bytes":
        return folder
    if (folder / DESCRIPTION).is_file() and not holds_every_byte(folder):
        return folder
    return folder_of_text(source, OCCURRING)


def folder_of_text(source: Source, ending: str = "") -> Path:
    """The folder of a text's name and, where a text of another place has that, of its checksum besides."""
    name = f"{source.name}-{source.tokens}"
    folder = HOME / f"{name}{ending}"
    if source.known or not (folder / DESCRIPTION).is_file():
        return folder
    described = described_sources(folder)
    if resolved(described) == resolved(source.files):
        return folder
    sums = [checksum(file) for file in source.files]
    if sums == list(described.values()):  # the same text, moved
        return folder
    content = sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
    return HOME / f"{name}-{content[:DIGITS]}{ending}"


def prepare_usual(
    source: Source, folder: Path, vocabulary: Path | None = None, force: bool = False
) -> Corpus:
    """The corpus of a text in its usual folder, or in the one it has since a text of its name was faster."""
    try:
        return prepare_corpus(source, folder, vocabulary, force)
    except OtherText:
        if (folder_now := usual_folder(source)) == folder:
            raise
        return prepare_corpus(source, folder_now, vocabulary, force)


def prepared_before(data: Path, tokens: str, occurring: bool = False) -> Corpus | None:
    """What was last prepared of a text that is gone, if it is there and was of this very path."""
    if str(data) in CORPORA or data.exists():
        return None
    folders = [path.parent for path in HOME.glob(f"*-{tokens}*/{DESCRIPTION}") if path.is_file()]
    corpora = [corpus for folder in folders for corpus in whole(folder) if was_made_of(corpus, data, tokens)]
    serving = [corpus for corpus in corpora if serves(corpus, occurring)]
    return max(serving, key=lambda corpus: (corpus.folder / DESCRIPTION).stat().st_mtime_ns, default=None)


def serves(corpus: Corpus, occurring: bool) -> bool:
    """Whether a corpus is what `usual_folder` would name for a text, all bytes having an id or not."""
    is_apart = corpus.folder.name.endswith(OCCURRING)
    return is_apart or not holds_every_byte(corpus.folder) if occurring else not is_apart


def holds_every_byte(folder: Path) -> bool:
    """Whether a corpus prepared there has an id for each of the 256 bytes."""
    if not (folder / DESCRIPTION).is_file():
        return False
    description = open_corpus(folder).description
    return (description["tokens"], description["vocabulary"]) == ("bytes", 256)


def described_sources(folder: Path) -> dict[str, str]:
    """The files that a corpus says it was prepared of, with their checksums; none where it cannot be read."""
    try:
        sources = parse_json((folder / DESCRIPTION).read_text(encoding="utf-8"))["sources"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return sources if isinstance(sources, dict) else {}


def whole(folder: Path) -> list[Corpus]:
    """The corpus in a folder, or nothing where it is damaged."""
    try:
        return [open_corpus(folder)]
    except DataError:
        return []


def was_made_of(corpus: Corpus, data: Path, tokens: str) -> bool:
    """Whether a corpus was prepared, as usual, of the text at a path, a file or a folder of files."""
    described, path = corpus.description, data.resolve()
    is_usual = described["tokens"] == tokens and not described.get("given_vocabulary")
    is_named = described["name"] == path.name
    sources = resolved(described["sources"])
    return is_usual and is_named and all(path in (file, *file.parents) for file in sources)


def resolved(files: Iterable[str | Path]) -> set[Path]:
    """Paths that can be compared."""
    return {Path(file).resolve() for file in files}
