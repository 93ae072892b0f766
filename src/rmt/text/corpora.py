"""Known corpora: where they come from, and what they must be.

WikiText's first home, the bucket research.metamind.io, has refused since 2024 (pytorch/text#2255); its
author's own site has the same archives.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rmt.errors import DataError, shown, unknown
from rmt.seal import checksum
from rmt.text.files import (
    SPLITS,
    Source,
    articles,
    cut,
    local_source,
    split_files,
    whole,
)
from rmt.text.vocabulary import vocabulary_kind

WIKITEXT = tuple(f"wiki.{split}.tokens" for split in SPLITS)


class Known(NamedTuple):
    """What is known of a published corpus; what is not known, is None and not checked."""

    name: str
    tokens: str  # its usual kind of token
    url: str  # of a zip archive
    files: tuple[str, ...]  # in the archive
    archive_md5: str | None = None
    size: int | None = None  # bytes of its only file
    md5: str | None = None  # of its only file
    counts: Mapping[str, int] | None = None  # tokens of its usual kind in each split
    vocabulary: int | None = None
    dropped: bytes = b""  # bytes that its preparation leaves out
    total: int | None = None  # tokens of all splits
    files_of: str = ""  # the corpus whose files it is made of, if not its own

    @property
    def archive(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    @property
    def folder(self) -> Path:
        """Where its files are, unless somebody says otherwise."""
        return Path("data") / (self.files_of or self.name)


CORPORA = {
    known.name: known
    for known in (
        Known(
            "wikitext-2",
            "words",
            "https://wikitext.smerity.com/wikitext-2-v1.zip",
            WIKITEXT,
            archive_md5="542ccefacc6c27f945fb54453812b3cd",  # as torchtext checks it
            counts={"train": 2_088_628, "valid": 217_646, "test": 245_569},
            vocabulary=33_278,
        ),
        Known(
            "wikitext-103",
            "words",
            "https://wikitext.smerity.com/wikitext-103-v1.zip",
            WIKITEXT,
            archive_md5="9ddaacaf6af0710eda8c456decff7832",  # as torchtext checks it
            counts={"train": 103_227_021, "valid": 217_646, "test": 245_569},
            vocabulary=267_735,
        ),
        Known(
            "enwik8",
            "bytes",
            "http://mattmahoney.net/dc/enwik8.zip",
            ("enwik8",),
            size=100_000_000,
            md5="a1fa5ffddb56f4953e226637dabbb36a",
            vocabulary=205,
            total=100_000_000,
        ),
        Known(
            "enwik8-204",  # without its 1,128,023 line breaks, as the original code prepares it
            "bytes",
            "http://mattmahoney.net/dc/enwik8.zip",
            ("enwik8",),
            size=100_000_000,
            md5="a1fa5ffddb56f4953e226637dabbb36a",
            vocabulary=204,
            dropped=b"\n",
            total=98_871_977,
            files_of="enwik8",
        ),
        Known(
            "text8",
            "characters",
            "http://mattmahoney.net/dc/text8.zip",
            ("text8",),
            size=100_000_000,
            vocabulary=27,
        ),
    )
}


def known_corpus(name: str) -> Known:
    """The corpus with a name."""
    if name not in CORPORA:
        raise unknown("corpus", name, CORPORA)
    return CORPORA[name]


def find_source(
    data: str, tokens: str | None = None, copy: Path | None = None, occurring: bool = False
) -> Source:
    """The source that `data` names: a known corpus, or the path of a text file or folder."""
    if tokens is not None:
        vocabulary_kind(tokens)
    if data in CORPORA:
        known = CORPORA[data]
        return known_source(known, tokens or known.tokens, copy or known.folder)
    if copy is not None:
        raise DataError(f"path={str(copy)!r} has no effect: {data!r} is not a known corpus; leave it out")
    if not Path(data).exists() and "." not in data and Path(data).name == data:
        if difflib.get_close_matches(data, CORPORA, n=1):
            raise unknown("corpus", data, CORPORA)
        names = ", ".join(CORPORA)
        raise DataError(
            f"data={shown(data)} does not exist; name a text, a folder of them, or one of: {names}"
        )
    return local_source(Path(data), tokens or "bytes", occurring)


def known_source(known: Known, tokens: str, path: Path) -> Source:
    """A known corpus, as a file or a folder with its files, checked where a checksum is known."""
    files = split_files(path) if known.counts else {}
    if files:
        splits = {split: articles(file) for split, file in files.items()}
        return Source(known.name, tokens, splits, known=True)
    file = path if path.is_file() else path / known.files[0]
    if known.counts or not file.is_file():
        raise DataError(
            f"{str(path)!r} has no {' or '.join(known.files)}; run rmt data get {known.name}, "
            "or name the place of a copy with --path"
        )
    whole(file)
    verify(known, file)
    if known.dropped and tokens != known.tokens:
        raise DataError(f"tokens={tokens} is not known of {known.name}, which is one of {known.tokens}")
    occurring = tokens == known.tokens
    return Source(known.name, tokens, cut([file], tokens), True, known.dropped, occurring)


def usual(source: Source) -> Known | None:
    """What must be true of a source: the known corpus it is, if its tokens are of the usual kind."""
    known = CORPORA[source.name] if source.known else None
    return known if known and known.tokens == source.tokens else None


def verify(known: Known, file: Path) -> None:
    """The only file of a corpus is the published one, by its size and checksum where they are known."""
    size = file.stat().st_size
    if known.size not in (None, size):
        raise DataError(
            f"{str(file)!r} has {size:,} bytes, {known.name} has {known.size:,}; get the whole file, "
            f"or prepare it as a text of its own: rmt data prepare {file}"
        )
    if known.md5 and (got := checksum(file, "md5")) != known.md5:
        raise DataError(f"{str(file)!r} has md5 {got}, {known.name} has {known.md5}; get it again")
