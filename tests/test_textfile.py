"""A text file is its bytes, however it is stored."""

import gzip
import lzma
import os
import tracemalloc

import pytest

from rmt.errors import DataError
from rmt.textfile import is_pipe, known_size, open_text, skip, text_size

TEXT = bytes(range(256)) * 400
PACKERS = {"a.txt": bytes, "a.txt.gz": gzip.compress, "a.txt.xz": lzma.compress}


@pytest.fixture(params=PACKERS)
def file(request, tmp_path):
    path = tmp_path / request.param
    path.write_bytes(PACKERS[request.param](TEXT))
    return path


def test_the_text_of_a_file_is_what_was_packed(file):
    with open_text(file) as opened:
        assert opened.read() == TEXT
    assert text_size(file) == len(TEXT)


@pytest.mark.parametrize("count", [0, 1, 70_000, len(TEXT)])
def test_bytes_are_skipped_from_the_start(file, count):
    with open_text(file) as opened:
        assert skip(opened, count) == count
        assert opened.read(300) == TEXT[count : count + 300]


def test_skipping_ends_with_the_text(file):
    with open_text(file) as opened:
        assert skip(opened, len(TEXT) + 5) == len(TEXT)


def test_lines_are_read_as_of_any_file(file):
    with open_text(file) as opened:
        assert opened.readline() == TEXT[: TEXT.index(b"\n") + 1]


def test_only_a_plain_file_tells_its_size_at_a_look(file):
    assert known_size(file) == (len(TEXT) if file.suffix == ".txt" else 0)


@pytest.mark.parametrize("name", ["a.gz", "a.xz"])
@pytest.mark.parametrize("content", [b"junk", b""], ids=["junk", "empty"])
def test_what_is_not_an_archive_is_an_error_that_names_it(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    if name == "a.gz" and not content:
        assert text_size(tmp_path / name) == 0  # gzip takes it for an archive of nothing
        return
    with pytest.raises(DataError, match=rf"{name}' is not a whole \.{name[2:]} file \(.+\); get it again"):
        text_size(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_a_cut_archive_is_an_error(tmp_path, name):
    (tmp_path / name).write_bytes(PACKERS[name](TEXT)[:-20])
    with pytest.raises(DataError, match="is not a whole"):
        text_size(tmp_path / name)


def test_without_a_library_a_zst_file_is_a_line_that_names_the_remedy(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("rmt.textfile.import_module", missing)
    (tmp_path / "a.zst").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.zst' needs Python 3\.14 or the package zstandard; pip install"):
        open_text(tmp_path / "a.zst")


def test_a_file_that_is_not_there_or_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        open_text(tmp_path / "no.txt")
    with pytest.raises(DataError, match="does not exist"):
        open_text(tmp_path / "no.gz")
    with pytest.raises(DataError, match="cannot be read"):
        open_text(tmp_path)


def test_a_pipe_is_neither_file_nor_folder(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    assert [is_pipe(tmp_path / name) for name in ("pipe", "file", "", "no")] == [True, False, False, False]
    assert known_size(tmp_path / "pipe") == 0


@pytest.mark.parametrize("name", ["a.txt.gz", pytest.param("a.txt.xz", marks=pytest.mark.slow)])
def test_a_text_that_was_packed_a_thousandfold_is_never_in_memory_at_once(name, tmp_path):
    (tmp_path / name).write_bytes(PACKERS[name](bytes(1 << 26)))
    tracemalloc.start()
    assert text_size(tmp_path / name) == 1 << 26
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_a_dictionary_that_does_not_fit_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(TEXT))
    monkeypatch.setattr("rmt.textfile.MOST_DICTIONARY", 1 << 20)
    with pytest.raises(DataError, match=r"a\.txt\.xz' is not a whole \.xz file \(Memory usage limit"):
        open_text(tmp_path / "a.txt.xz")
