"""What is being written is left alone; what a killed process left is removed, links are never followed."""

import os
from pathlib import Path

import pytest

from rmt.partial import MAX_WRITERS, claim, new_file, new_folder, remove_abandoned, sweep
from rmt.store import write_whole
from tests.test_store import names


def test_what_another_is_writing_is_left_alone(tmp_path):
    partial, descriptor = claim(tmp_path / "x", tmp_path, new_file)
    write_whole(tmp_path / "x", "second")
    sweep(tmp_path)
    assert partial.exists()
    os.close(descriptor)
    sweep(tmp_path)
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_writers_of_the_same_have_a_partial_each(tmp_path, make):
    claims = [claim(tmp_path / "x", tmp_path, make) for _ in range(3)]
    assert names(tmp_path) == [".x.partial", ".x.partial-1", ".x.partial-2"]
    for _, descriptor in claims:
        os.close(descriptor)
    sweep(tmp_path)
    assert names(tmp_path) == []


def test_too_many_writers_are_an_error(tmp_path):
    claims = [claim(tmp_path / "x", tmp_path, new_file) for _ in range(MAX_WRITERS)]
    with pytest.raises(FileExistsError, match="100 others are writing it"):
        claim(tmp_path / "x", tmp_path, new_file)
    for _, descriptor in claims:
        os.close(descriptor)


def test_a_folder_that_another_takes_for_abandoned_before_it_is_locked_is_made_anew(tmp_path, monkeypatch):
    made: list[Path] = []

    def mkdir_and_lose(folder: Path) -> None:
        make_folder(folder)
        if not made:
            remove_abandoned(folder)
        made.append(folder)

    make_folder = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", mkdir_and_lose)
    partial, descriptor = claim(tmp_path / "x", tmp_path, new_folder)
    os.close(descriptor)
    assert partial == made[1]
    assert partial.is_dir()


def test_a_folder_to_write_beside_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        claim(tmp_path / "missing" / "x", tmp_path / "missing", new_folder)
