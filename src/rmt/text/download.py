"""A known corpus is got: found, unpacked from an archive at hand, or downloaded, cut downloads continued."""

from __future__ import annotations

import http.client
import lzma
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from rmt.errors import DataError
from rmt.partial import unfollowed
from rmt.seal import checksum
from rmt.store import existing
from rmt.text.corpora import Known, verify

TIMEOUT = 30  # seconds without an answer
BLOCK = 1 << 18  # bytes between two reports of progress
AGENT = "Mozilla/5.0 (rmt data get)"  # some hosts refuse Python's own name
ZIP_DAMAGE = (  # what zipfile raises where an archive is cut, changed or of a kind it cannot unpack
    zipfile.BadZipFile,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    lzma.LZMAError,
)

Progress = Callable[[int, int], None]  # bytes there are, bytes there will be (0 = not known)


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
    is_download = not archive.is_file()
    if is_download:
        archive = download(known, folder, progress)
    try:
        check_archive(known, archive)
        unpack(known, archive, folder)
    except DataError:
        if is_download:  # of no use: the next attempt starts anew
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
    with response, open(partial, "ab", opener=unfollowed) as file:
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
    got = checksum(archive, "md5") if known.archive_md5 else None
    if got != known.archive_md5:
        raise DataError(
            f"{str(archive)!r} has md5 {got}, {known.archive} has {known.archive_md5}; get it again"
        )


def unpack(known: Known, archive: Path, folder: Path) -> None:
    """Put the corpus's files from an archive into a folder, all of them or none."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=existing(folder)) as temporary:
        try:
            files = list(extract(known, archive, Path(temporary)))
        except ZIP_DAMAGE as error:
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
