"""Known corpora are found, and got from a server that may fail."""

import hashlib
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rmt.errors import ConfigError, DataError
from rmt.text.corpora import CORPORA, Known, find_source, known_corpus
from rmt.text.download import get

TEXT = bytes(range(97, 117)) * 5000


def archive(**files):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as opened:
        for name, content in files.items():
            opened.writestr(f"folder/{name}", content)
    return memory.getvalue()


ARCHIVE = archive(small=TEXT, other=b"not wanted")


def damaged_archive(method):
    """An archive whose list of files is whole and whose packed bytes are not."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", method) as opened:
        opened.writestr("small", TEXT)
    content = bytearray(memory.getvalue())
    start = len("small") + 30  # of the packed bytes, behind their header
    content[start + 10 : start + 40] = b"\xff" * 30
    return bytes(content)


class Handler(BaseHTTPRequestHandler):
    """Serves the server's `body` with ranges; `fault` says what goes wrong."""

    def do_GET(self):
        self.server.asked.append(self.headers.get("Range"))
        body, start = self.server.body, 0
        if self.server.fault == "404":
            return self.send_error(404)
        if self.headers.get("Range") and self.server.fault != "no ranges":
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        stop = len(body) // 2 if self.server.fault == "cut" else len(body)
        self.wfile.write(body[start:stop])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.body, made.fault, made.asked = ARCHIVE, "", []
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def small(server):
    """A corpus on that server."""
    return Known(
        "small",
        "bytes",
        f"http://127.0.0.1:{server.server_port}/small.zip",
        ("small",),
        archive_md5=hashlib.md5(ARCHIVE).hexdigest(),
        size=len(TEXT),
        md5=hashlib.md5(TEXT).hexdigest(),
    )


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


def test_a_corpus_is_downloaded_checked_and_unpacked(small, server, tmp_path):
    reports = []
    (file,) = get(small, tmp_path / "new", progress=lambda *report: reports.append(report))
    assert file.read_bytes() == TEXT
    assert names(tmp_path / "new") == ["small"]
    assert reports[-1] == (len(ARCHIVE), len(ARCHIVE))


def test_what_is_there_is_not_downloaded_again(small, server, tmp_path):
    get(small, tmp_path)
    assert get(small, tmp_path) == [tmp_path / "small"]
    assert server.asked == [None]


def test_a_cut_download_goes_on_where_it_ended(small, server, tmp_path):
    server.fault = "cut"
    half = len(ARCHIVE) // 2
    with pytest.raises(DataError, match=rf"ended after {half:,} of {len(ARCHIVE):,} bytes; the same command"):
        get(small, tmp_path)
    assert names(tmp_path) == ["small.zip.partial"]
    server.fault = ""
    get(small, tmp_path)
    assert server.asked == [None, f"bytes={half}-"]
    assert names(tmp_path) == ["small"]


def test_a_server_without_ranges_starts_from_the_beginning(small, server, tmp_path):
    server.fault = "no ranges"
    (tmp_path / "small.zip.partial").write_bytes(b"old")
    assert get(small, tmp_path)[0].read_bytes() == TEXT


def test_a_download_that_is_whole_already_is_unpacked(small, tmp_path):
    (tmp_path / "small.zip.partial").write_bytes(ARCHIVE)
    assert get(small, tmp_path)[0].read_bytes() == TEXT


def test_a_partial_file_that_is_longer_than_the_archive_is_thrown_away(small, tmp_path):
    (tmp_path / "small.zip.partial").write_bytes(ARCHIVE + b"more")
    assert get(small, tmp_path)[0].read_bytes() == TEXT


def test_a_missing_page_says_which_file_to_put_where(small, server, tmp_path):
    server.fault = "404"
    with pytest.raises(
        DataError, match=r"cannot get http://.*: Not Found; or put small\.zip into '.*new'"
    ) as caught:
        get(small, tmp_path / "new")
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_no_network_says_which_file_to_put_where(tmp_path):
    offline = Known("small", "bytes", "http://127.0.0.1:9/small.zip", ("small",))
    with pytest.raises(
        DataError, match=r"refused; or put small\.zip into '.*' yourself and run rmt data get small"
    ):
        get(offline, tmp_path / "new")
    assert names(tmp_path) == []


def test_an_archive_put_there_by_hand_is_used(tmp_path):
    offline = Known("small", "bytes", "http://127.0.0.1:9/small.zip", ("small",))
    (tmp_path / "small.zip").write_bytes(ARCHIVE)
    assert get(offline, tmp_path)[0].read_bytes() == TEXT


@pytest.mark.parametrize(
    ("change", "body", "message"),
    [
        ({}, ARCHIVE + b"x", "has md5 .*, small.zip has .*; get it again"),
        ({"archive_md5": None}, ARCHIVE[:-1000], "is not a whole zip archive"),
        ({"archive_md5": None}, b"<html>", "is not a whole zip archive"),
        ({"archive_md5": None}, damaged_archive(zipfile.ZIP_DEFLATED), "is not a whole zip archive"),
        ({"archive_md5": None}, damaged_archive(zipfile.ZIP_LZMA), "is not a whole zip archive"),
        ({"archive_md5": None}, archive(other=b"x"), "has no file small; get small.zip again"),
        ({"archive_md5": None}, archive(small=b"x"), "has 1 bytes, small has 100,000; get the whole file"),
        ({"archive_md5": None}, archive(small=TEXT[::-1]), "has md5 .*, small has .*; get it again"),
    ],
    ids=["checksum", "truncated", "no-zip", "deflated", "lzma", "no-file", "short-file", "other-file"],
)
def test_a_wrong_archive_leaves_nothing_behind(small, server, tmp_path, change, body, message):
    server.body = body
    with pytest.raises(DataError, match=message):
        get(small._replace(**change), tmp_path / "new")
    assert names(tmp_path) == []


def test_a_copy_of_the_archive_is_unpacked_and_kept(small, server, tmp_path):
    (tmp_path / "copy.zip").write_bytes(ARCHIVE)
    assert get(small, tmp_path / "new", tmp_path / "copy.zip")[0].read_bytes() == TEXT
    assert names(tmp_path) == ["copy.zip", "new", "small"]
    assert server.asked == []
    with pytest.raises(DataError, match=r"path='no\.zip' is not a file; name a copy of small\.zip"):
        get(small, tmp_path / "new", tmp_path.__class__("no.zip"))


@pytest.mark.parametrize("name", ["copy.partial", "copy.zip"])
def test_a_damaged_copy_stays_where_it_is_whatever_its_name(small, tmp_path, name):
    (tmp_path / name).write_bytes(ARCHIVE[:-1000])
    with pytest.raises(DataError, match=rf"{name}' has md5 .*; get it again"):
        get(small, tmp_path / "new", tmp_path / name)
    assert names(tmp_path) == [name]


def test_an_unknown_corpus_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown corpus 'wikitext2'; did you mean 'wikitext-2'"):
        known_corpus("wikitext2")


@pytest.mark.parametrize("name", CORPORA)
def test_a_known_corpus_that_is_not_there_says_how_to_get_it(name, tmp_path):
    with pytest.raises(DataError, match=f"run rmt data get {name}, or name the place of a copy with --path"):
        find_source(name, copy=tmp_path)


def test_a_part_of_enwik8_is_not_enwik8(tmp_path):
    (tmp_path / "enwik8").write_bytes(b"x" * 1000)
    with pytest.raises(
        DataError, match="has 1,000 bytes, enwik8 has 100,000,000; get the whole file, or prepare"
    ):
        find_source("enwik8", copy=tmp_path / "enwik8")
