"""A .zst text, read where Python has no zstd of its own: all of it, or an error that names the file."""

import sys
import tracemalloc
import zlib
from types import SimpleNamespace

import pytest

from rmt.errors import DataError
from rmt.textfile import open_text, skip, text_size

TEXT = bytes(range(256)) * 4000 + b"the end\n"
LIBRARIES = ["zstandard", "stand-in"]


@pytest.fixture(params=LIBRARIES)
def compress(request, monkeypatch):
    """Packs bytes for the package zstandard, or for a stand-in that packs and reports as zlib does."""
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    if request.param == "zstandard":
        return pytest.importorskip("zstandard").ZstdCompressor().compress
    decompressor = SimpleNamespace(decompressobj=zlib.decompressobj)
    package = SimpleNamespace(ZstdDecompressor=lambda: decompressor, ZstdError=zlib.error)
    monkeypatch.setitem(sys.modules, "zstandard", package)
    return zlib.compress


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.txt.zst"


def test_the_text_of_a_frame_is_what_was_packed(compress, file):
    file.write_bytes(compress(TEXT))
    with open_text(file) as opened:
        assert opened.readline() == TEXT[: TEXT.index(b"\n") + 1]
        assert opened.read() == TEXT[TEXT.index(b"\n") + 1 :]
    with open_text(file) as opened:
        assert skip(opened, 70_000) == 70_000
        assert opened.read(300) == TEXT[70_000:70_300]


def test_frames_in_a_row_are_one_text(compress, file):
    frames = (b"one ", b"", TEXT, b"two ", b"three")
    file.write_bytes(b"".join(map(compress, frames)))
    with open_text(file) as opened:
        assert opened.read() == b"".join(frames)


@pytest.mark.parametrize("missing", [1, 5, 100])
def test_a_text_that_ends_inside_a_frame_is_an_error(compress, file, missing):
    whole = compress(TEXT)
    for content in (whole[:-missing], whole + whole[:-missing]):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.txt\.zst' is not a whole \.zst file \(it ends .+\); get"):
            text_size(file)


@pytest.mark.parametrize("content", [b"junk", b""], ids=["junk", "empty"])
def test_what_is_no_frame_is_an_error(compress, file, content):
    for start in (b"", compress(TEXT)) if content else (b"",):
        file.write_bytes(start + content)
        with pytest.raises(DataError, match=r"a\.txt\.zst' is not a whole \.zst file \(.+\); get it again"):
            text_size(file)


def test_a_text_that_was_packed_ten_thousandfold_is_never_in_memory_at_once(compress, file):
    file.write_bytes(compress(bytes(1 << 26)))
    tracemalloc.start()
    assert text_size(file) == 1 << 26
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 25
