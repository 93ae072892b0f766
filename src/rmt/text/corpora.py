"""Known corpora: where they come from, what they must be, and how to get them.

WikiText's first home, the bucket research.metamind.io, has refused since 2024 (pytorch/text#2255); its
author's own site has the same archives.
"""

from __future__ import annotations

import http.client
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from rmt.errors import DataError, unknown
from rmt.text.files import (
    SPLITS,
    Source,
    articles,
    cut,
    digest,
    existing,
    local_source,
    split_files,
    whole,
)
from rmt.text.vocabulary import vocabulary_kind

TIMEOUT = 30  # seconds without an answer
BLOCK = 1 << 18  # bytes between two reports of progress
AGENT = "Mozilla/5.0 (rmt data get)"  # some hosts refuse Python's own name
WIKITEXT = tuple(f"wiki.{split}.tokens" for split in SPLITS)

Progress = Callable[[int, int], None]  # bytes there are, bytes there will be (0 = not known)


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

    @property
    def archive(self) -> str:
        return self.url.rsplit("/", 1)[-1]


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


def find_source(place: str, tokens: str | None = None, copy: Path | None = None) -> Source:
    """The source that `place` names: a known corpus, or the path of a text file or folder."""
    if tokens is not None:
        vocabulary_kind(tokens)
    if place in CORPORA:
        return known_source(CORPORA[place], tokens or CORPORA[place].tokens, copy or Path("data") / place)
    if copy is not None:
        raise DataError(f"path={str(copy)!r} has no effect: {place!r} is not a known corpus; leave it out")
    if not Path(place).exists() and Path(place).name == place:
        raise unknown("corpus", place, [*CORPORA, "the path of a text"])
    return local_source(Path(place), tokens or "bytes")


def known_source(known: Known, tokens: str, place: Path) -> Source:
    """A known corpus, as a file or a folder with its files, checked where a checksum is known."""
    given = split_files(place) if known.counts else {}
    if given:
        splits = {split: articles(file) for split, file in given.items()}
        return Source(known.name, tokens, splits, known=True)
    file = place if place.is_file() else place / known.files[0]
    if known.counts or not file.is_file():
        raise DataError(
            f"{str(place)!r} has no {' or '.join(known.files)}; run rmt data get {known.name}, "
            "or name the place of a copy with --path"
        )
    whole(file)
    verify(known, file)
    return Source(known.name, tokens, cut([file], tokens), known=True)


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
    if known.md5 and (got := digest(file, "md5")) != known.md5:
        raise DataError(f"{str(file)!r} has md5 {got}, {known.name} has {known.md5}; get it again")


def get(
    known: Known, folder: Path, copy: Path | None = None, progress: Progress = lambda *_: None
) -> list[Path]:
    """The files of a corpus in `folder`: found there, unpacked from an archive at hand, or downloaded."""
    wanted = [folder / name for name in known.files]
    if copy is None and all(file.is_file() for file in wanted):
        check_all(known, wanted)
        return wanted
    if copy is not None and not copy.is_file():
        raise DataError(f"path={str(copy)!r} is not a file; name a copy of {known.archive}")
    archive = copy or folder / known.archive
    if not archive.is_file():
        archive = download(known, folder, progress)
    try:
        check_archive(known, archive)
        unpack(known, archive, folder)
    except DataError:
        if archive.suffix == ".partial":  # of no use: the next attempt starts anew
            archive.unlink()
        remove_if_empty(folder / known.archive)
        raise
    if copy is None:
        archive.unlink()
    return wanted


def download(known: Known, folder: Path, progress: Progress) -> Path:
    """The whole archive as a file `.partial`; a cut download leaves it behind, the next one continues it."""
    partial = folder / f"{known.archive}.partial"
    try:
        total = fetch(known.url, partial, progress)
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise by_hand(known, folder, str(reason) or type(error).__name__) from None
    finally:
        remove_if_empty(partial)
    size = partial.stat().st_size if partial.exists() else 0
    if not size or size < total:
        cut = f"the connection ended after {size:,} of {total:,} bytes"
        raise by_hand(known, folder, f"{cut}; the same command goes on from there")
    return partial


def fetch(url: str, partial: Path, progress: Progress) -> int:
    """Append to `partial` what is still missing; returns the size it should have, 0 if that is not said."""
    have = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": AGENT} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        if error.headers.get("Content-Range", "") == f"bytes */{have}":
            return have
        partial.unlink()  # longer than the file on the server, so another file
        return fetch(url, partial, progress)
    partial.parent.mkdir(parents=True, exist_ok=True)
    with response, partial.open("ab") as file:
        if response.status != 206:  # the server starts from the beginning
            file.truncate(have := 0)
        total = have + int(response.headers.get("Content-Length", -have))
        while block := response.read(BLOCK):
            file.write(block)
            have += len(block)
            progress(have, total)
    return total


def by_hand(known: Known, folder: Path, reason: str) -> DataError:
    return DataError(
        f"cannot get {known.url}: {' '.join(reason.split())}; or put {known.archive} "
        f"into {str(folder)!r} yourself and run rmt data get {known.name} again"
    )


def remove_if_empty(partial: Path) -> None:
    """No trace of a download of which nothing came."""
    if partial.exists() and not partial.stat().st_size:
        partial.unlink()
    if partial.parent.is_dir() and not any(partial.parent.iterdir()):
        partial.parent.rmdir()


def check_archive(known: Known, archive: Path) -> None:
    got = digest(archive, "md5") if known.archive_md5 else None
    if got != known.archive_md5:
        raise DataError(
            f"{str(archive)!r} has md5 {got}, {known.archive} has {known.archive_md5}; get it again"
        )


def unpack(known: Known, archive: Path, folder: Path) -> None:
    """Put the corpus's files from an archive into a folder, all of them or none."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=existing(folder)) as temporary:
        try:
            files = list(extract(known, archive, Path(temporary)))
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
            raise DataError(f"{str(archive)!r} is not a whole zip archive ({error}); get it again") from None
        check_all(known, files)
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            file.replace(folder / file.name)


def extract(known: Known, archive: Path, folder: Path) -> Iterable[Path]:
    """Each of the corpus's files, wherever in the archive it is."""
    with zipfile.ZipFile(archive) as opened:
        members = {name.rsplit("/", 1)[-1]: name for name in opened.namelist()}
        for name in known.files:
            if name not in members:
                raise DataError(f"{str(archive)!r} has no file {name}; get {known.archive} again")
            with opened.open(members[name]) as packed, (folder / name).open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            yield folder / name


def check_all(known: Known, files: list[Path]) -> None:
    if len(files) == 1:
        verify(known, files[0])
