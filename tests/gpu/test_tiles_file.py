"""Measured tiles: kept per card, taken up by later runs, refused where no kernel takes them."""

import json

import pytest

from rmt.errors import ConfigError
from rmt.gpu.tiles_file import load_tiles, tiles_path, write_tiles

TABLE = {"rotate": {"rows": 32}, "aligned": {"rows": 32, "columns": 64}}
CARD = "NVIDIA H100 80GB HBM3"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RMT_TILES", str(tmp_path / "tiles"))
    return tmp_path / "tiles"


def test_a_file_is_named_after_its_card(folder):
    assert tiles_path(CARD) == folder / "tiles-nvidia-h100-80gb-hbm3.json"


def test_without_a_folder_of_ones_own_it_is_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("RMT_TILES")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert tiles_path("A").parent == tmp_path / "cache" / "rmt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tiles_path("A").parent == tmp_path / ".cache" / "rmt"


def test_what_was_written_for_a_card_is_loaded_on_that_card_only(folder):
    path = write_tiles(CARD, {"rotate": {"rows": 64}}, {"torch": "2.13.0"})
    assert path.parent == folder
    assert json.loads(path.read_text())["environment"] == {"torch": "2.13.0"}
    assert load_tiles(CARD, TABLE) == {"rotate": {"rows": 64}, "aligned": {"rows": 32, "columns": 64}}
    assert load_tiles("NVIDIA H200", TABLE) == TABLE
    assert TABLE["rotate"] == {"rows": 32}


@pytest.mark.parametrize(
    "text",
    [
        '{"kernels": {"rotate": {"rows": 64, "warps": 2}}}',
        '{"kernels": {"turn": {"rows": 64}}}',
        '{"rotate": {}}',
        '{"kernels": [1]}',
        '{"kernels": {"rotate": 64}}',
        "not JSON",
    ],
    ids=["other-constants", "other-kernel", "no-table", "list", "no-constants", "no-json"],
)
def test_a_table_that_no_kernel_takes_is_refused_in_a_line(folder, text):
    folder.mkdir()
    tiles_path(CARD).write_text(text)
    with pytest.raises(ConfigError, match=r"tiles-nvidia.*rmt bench --tune, or delete it"):
        load_tiles(CARD, TABLE)


def test_a_folder_that_cannot_be_written_is_one_line(folder):
    folder.write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot be written .*; name a folder with RMT_TILES"):
        write_tiles(CARD, TABLE, {})
