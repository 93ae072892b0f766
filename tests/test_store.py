"""What the store writes is there whole or not at all, whatever happens and whoever else writes."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rmt import partial as partials
from rmt import store
from rmt.errors import RMTError
from rmt.partial import sweep
from rmt.store import NotWritten, append_line, whole_folder, write_page, write_whole
from tests.disks import full_disk, umask


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(folder: Path, text: str = "new") -> None:
    with whole_folder(folder) as partial:
        (partial / "a").write_text(text)
        (partial / "deep").mkdir()
        (partial / "deep" / "b").write_text(text)


@pytest.mark.parametrize("content", ["text é", b"\0\xff"])
def test_a_file_has_the_content_that_was_written(tmp_path, content):
    write_whole(tmp_path / "file", "old")
    write_whole(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["file"]


def test_a_page_is_written_behind_a_link_and_into_a_pipe(tmp_path):
    (tmp_path / "link").symlink_to("page")
    write_page(tmp_path / "link", "é")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page").read_bytes() == "é".encode()
    read_end, write_end = os.pipe()
    write_page(Path(f"/dev/fd/{write_end}"), "é")
    assert os.read(read_end, 9) == "é".encode()
    with pytest.raises(NotWritten, match="Is a directory"):
        write_page(tmp_path, "é")
    for descriptor in (read_end, write_end):
        os.close(descriptor)


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
def test_files_and_folders_have_the_modes_of_the_umask(tmp_path, mask):
    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    with umask(mask):
        write_whole(tmp_path / "file", "new")
        with whole_folder(tmp_path / "folder") as partial:
            (partial / "a").touch(0o600)
    assert mode(tmp_path / "file") == mode(tmp_path / "folder" / "a") == 0o666 & ~mask
    assert mode(tmp_path / "folder") == 0o777 & ~mask


@pytest.mark.parametrize("target", ["file", "folder"])
def test_a_link_in_the_way_is_never_followed(tmp_path, target):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "victims").mkdir()
    (tmp_path / "victims" / "a").write_text("precious")
    for name in ("x", "y"):
        (tmp_path / f".{name}.partial").symlink_to(tmp_path / ("victim" if target == "file" else "victims"))
    write_whole(tmp_path / "x", "new")
    fill(tmp_path / "y")
    assert (tmp_path / "victim").read_text() == (tmp_path / "victims" / "a").read_text() == "precious"
    assert (tmp_path / "x").read_text() == (tmp_path / "y" / "a").read_text() == "new"
    assert names(tmp_path) == ["victim", "victims", "x", "y"]


def test_files_and_folders_are_synced_with_the_folder_that_holds_them(tmp_path, monkeypatch):
    synced = []

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(tmp_path / "file", "new")
    assert synced == [str(tmp_path / ".file.partial"), str(tmp_path)]
    synced.clear()
    fill(tmp_path / "folder")
    partial = tmp_path / ".folder.partial"
    assert set(synced[:-2]) == {str(partial / name) for name in ("a", "deep", "deep/b")}
    assert synced[-2:] == [str(partial), str(tmp_path)]


def test_a_full_disk_is_one_line_and_what_was_there_stays(tmp_path):
    write_whole(tmp_path / "file", "old")
    fill(tmp_path / "folder", "old")
    with full_disk(1000):
        with pytest.raises(NotWritten) as refused:
            write_whole(tmp_path / "file", "new" * 1000)
        with pytest.raises(NotWritten, match="free some space and start again"):
            fill(tmp_path / "folder", "new" * 1000)
    assert str(tmp_path / "file") in str(refused.value)
    assert "free some space" in str(refused.value)
    assert isinstance(refused.value, RMTError)
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "a").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]


def test_a_folder_that_was_removed_is_one_line(tmp_path):
    with pytest.raises(NotWritten, match=r"gone/file' cannot be written \(No such file.*name another place"):
        write_whole(tmp_path / "gone" / "file", "new")
    with pytest.raises(NotWritten, match="cannot be written"):
        append_line(tmp_path / "gone" / "file", "new")


def test_a_folder_that_may_not_be_written_is_one_line(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    write_whole(tmp_path / "file", "old")
    monkeypatch.setattr(partials, "unfollowed", refuse)
    with pytest.raises(NotWritten, match=r"\(Read-only file system\); make it writable, or name another"):
        write_whole(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"


KILLED = """
import os, signal, sys
from pathlib import Path
from rmt import partial as partials
from rmt import store
def killed(*_): os.kill(os.getpid(), signal.SIGKILL)
setattr(os if sys.argv[1] in ("fsync", "replace") else store, sys.argv[1], killed)
folder = Path(sys.argv[2])
if sys.argv[3] == "file":
    store.write_whole(folder / "x", "new")
with store.whole_folder(folder / "x") as partial:
    (partial / "a").write_text("new")
"""


@pytest.mark.covering
@pytest.mark.parametrize("moment", ["fsync", "replace", "sync_folder", "settle", "put", "exchange"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_leaves_the_old_or_the_new_and_hurts_no_later_writer(tmp_path, moment, kind):
    write_whole(tmp_path / "x", "old") if kind == "file" else fill(tmp_path / "x", "old")

    def content():
        return (tmp_path / "x" if kind == "file" else tmp_path / "x" / "a").read_text()

    subprocess.run([sys.executable, "-c", KILLED, moment, str(tmp_path), kind])
    assert content() in ("old", "new")
    sweep(tmp_path)
    assert names(tmp_path) == ["x"]
    write_whole(tmp_path / "x", "later") if kind == "file" else fill(tmp_path / "x", "later")
    assert content() == "later"
    assert names(tmp_path) == ["x"]


def test_of_many_writers_at_once_each_writes_whole(tmp_path):
    texts = [str(number) * 50_000 for number in range(8)]
    threads = [
        threading.Thread(target=lambda text=text: [write_whole(tmp_path / "x", text) for _ in range(5)])
        for text in texts
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (tmp_path / "x").exists():
            assert (tmp_path / "x").read_text() in texts
    assert (tmp_path / "x").read_text() in texts
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_takes_the_place_of_another(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(store, "exchange", lambda first, second: False)
    fill(tmp_path / "x", "old")
    (tmp_path / "x" / "of the old one").touch()
    fill(tmp_path / "x", "new")
    assert names(tmp_path / "x") == ["a", "deep"]
    assert names(tmp_path) == ["x"]


def test_a_folder_that_holds_something_is_replaced_only_if_asked(tmp_path):
    fill(tmp_path / "x", "old")
    with pytest.raises(NotWritten), whole_folder(tmp_path / "x", replace=False) as partial:
        (partial / "a").write_text("new")
    assert (tmp_path / "x" / "a").read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_folders_above_are_made_with_the_folder_and_not_before(tmp_path):
    with pytest.raises(ValueError), whole_folder(tmp_path / "deep" / "x"):  # noqa: PT011
        raise ValueError
    assert names(tmp_path) == []
    fill(tmp_path / "deep" / "x")
    assert (tmp_path / "deep" / "x" / "a").read_text() == "new"
