"""Records that carry their checksum: no change goes unseen, and what is no record is one line."""

import json

import pytest

from rmt.errors import CheckpointError
from rmt.seal import load_record, newest_whole, record_checksum, sealed, unsealed
from rmt.store import write_json

RECORD = {"value": 0.125, "steps": 1200, "config": {"seed": 1, "names": ["a", "é"]}, "none": None}


def test_a_sealed_record_is_loaded_as_it_was(tmp_path):
    write_json(tmp_path / "record.json", sealed(RECORD))
    assert load_record(tmp_path / "record.json", "get another") == RECORD


def test_a_record_of_an_earlier_release_has_no_seal(tmp_path):
    write_json(tmp_path / "record.json", RECORD)
    assert load_record(tmp_path / "record.json", "get another") == RECORD


def test_order_and_spelling_do_not_matter():
    turned = dict(reversed(sealed(RECORD).items()))
    assert unsealed(json.loads(json.dumps(turned, ensure_ascii=False)), "x", "") == RECORD
    assert record_checksum({1: 2}) == record_checksum({"1": 2})


def test_no_flipped_bit_of_a_sealed_record_changes_what_is_loaded(tmp_path):
    path = tmp_path / "record.json"
    write_json(path, sealed(RECORD))
    content = path.read_bytes()
    for offset in range(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= 1 << offset % 7
        path.write_bytes(damaged)
        try:
            loaded = load_record(path, "get another")
        except CheckpointError:
            continue
        assert {key: value for key, value in loaded.items() if key in RECORD} == RECORD


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"null", b"\xff", b'{"a": ' + b"9" * 5000 + b"}", b"[" * 100_000]
)
def test_what_is_no_record_is_one_line(tmp_path, content):
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"record\.json' is damaged \(.*\); get another") as refused:
        load_record(tmp_path / "record.json", "get another")
    assert "\n" not in str(refused.value)


def test_a_record_that_is_a_folder_or_too_long_is_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="damaged"):
        load_record(tmp_path / "folder", "get another")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(CheckpointError, match="at most 67,108,864 are read"):
        load_record(tmp_path / "long", "get another")


def test_the_newest_whole_one_is_chosen_with_a_line_for_each_that_is_not():
    def load(number):
        if number > 1:
            raise CheckpointError(f"{number} is damaged")
        return number

    warnings = []
    assert newest_whole([3, 2, 1, 0], load, warnings.append, "one") == 1
    assert warnings == [f"{number} is damaged; going back to the one before it" for number in (3, 2)]
    assert newest_whole([3], load, warnings.append, "one") is None
