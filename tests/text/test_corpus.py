"""A prepared corpus is opened as it was prepared, or not at all: damage is one line that names the file."""

import json
import os
import shutil
from pathlib import Path

import pytest

from rmt.errors import DataError
from rmt.text import sums
from rmt.text.corpora import find_source
from rmt.text.corpus import open_corpus
from rmt.text.prepare import prepare_corpus
from tests.cli.command import rmt

RELEASE = Path(__file__).parents[1] / "release" / "17fc2a8"


@pytest.fixture(params=["now", "17fc2a8"])
def corpus(request, tmp_path):
    """A prepared corpus of this release, and of an earlier one, whose corpus.json has no checksum."""
    folder = tmp_path / "corpus"
    if request.param == "17fc2a8":
        shutil.copytree(RELEASE / "data" / "tale.txt-bytes", folder)
    else:
        prepare_corpus(find_source(str(RELEASE / "tale.txt")), folder)
    return folder


def use(folder: Path) -> list[int]:
    """The sum of the tokens of each split."""
    opened = open_corpus(folder)
    return [int(opened.tokens(split).sum()) for split in opened.splits]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0\0")


def swap(file: Path) -> None:
    other = file.with_name("valid.bin" if file.name == "test.bin" else "test.bin")
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES = [cut, zero, flip, lengthen, swap, empty, folder_instead, Path.unlink]


@pytest.mark.covering
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["train.bin", "valid.bin", "test.bin", "vocabulary.json", "corpus.json"])
def test_no_damage_of_a_file_gives_other_tokens(corpus, damage, name):
    expected = use(corpus)
    damage(corpus / name)
    with pytest.raises(
        DataError, match=r"is damaged: .*; prepare the corpus again|is not a prepared"
    ) as refused:
        assert use(corpus) == expected
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [None, -1, 0, True, "x", [], {}, 1e400, 10**30], ids=repr)
def test_odd_descriptions_are_one_line(corpus, value):
    file = corpus / "corpus.json"
    description = json.loads(file.read_text())
    expected = use(corpus)
    for name in description:
        check_odd(corpus, {**description, name: value}, expected)
    for name in description["splits"]["test"]:
        test = {**description["splits"]["test"], name: value}
        check_odd(corpus, {**description, "splits": {**description["splits"], "test": test}}, expected)


def check_odd(corpus, description, expected):
    (corpus / "corpus.json").write_text(json.dumps(description))
    try:
        sums_of_tokens = use(corpus)
    except DataError:
        return
    assert sums_of_tokens == expected


def test_a_changed_description_is_seen_where_it_has_a_checksum(tmp_path):
    prepare_corpus(find_source(str(RELEASE / "tale.txt")), tmp_path / "corpus")
    file = tmp_path / "corpus" / "corpus.json"
    file.write_text(file.read_text().replace('"documents": [ 0 ]', '"documents": [ 0, 7 ]', 1))
    with pytest.raises(DataError, match="its content does not match its sha256"):
        open_corpus(tmp_path / "corpus")


@pytest.mark.parametrize("name", ["../train", "train/x", "other"])
def test_a_split_is_train_valid_or_test(corpus, name):
    description = json.loads((corpus / "corpus.json").read_text())
    description["splits"][name] = description["splits"].pop("test")
    (corpus / "corpus.json").write_text(json.dumps(description))
    with pytest.raises(DataError, match="is not a split"):
        open_corpus(corpus)


def test_a_file_is_summed_once_in_a_process_unless_it_changes(corpus, monkeypatch):
    summed = []

    def note(file):
        summed.append(file.name)
        return checksum(file)

    checksum = sums.checksum
    monkeypatch.setattr(sums, "checksum", note)
    for file in corpus.glob("*.bin"):
        os.utime(file, (1, 1))
    for _ in range(3):
        use(corpus)
    assert sorted(name for name in summed if name.endswith(".bin")) == ["test.bin", "train.bin", "valid.bin"]
    flip(corpus / "test.bin")
    with pytest.raises(DataError, match=r"test\.bin' is damaged"):
        use(corpus)


def test_of_a_very_large_file_samples_are_summed(tmp_path, monkeypatch):
    folder = tmp_path / "corpus"
    prepare_corpus(find_source(str(RELEASE / "tale.txt")), folder)
    expected = use(folder)
    monkeypatch.setattr(sums, "MAX_WHOLE_BYTES", 1)
    monkeypatch.setattr(
        sums, "checksum", lambda file: pytest.fail(file.name) if file.suffix == ".bin" else whole(file)
    )
    assert use(folder) == expected
    for damage in (flip, cut, swap):
        shutil.copytree(folder, tmp_path / damage.__name__)
        damage(tmp_path / damage.__name__ / "test.bin")
        with pytest.raises(DataError, match="is damaged"):
            use(tmp_path / damage.__name__)


whole = sums.checksum


@pytest.mark.parametrize("damage", [zero, swap, cut])
def test_a_run_is_not_measured_on_damaged_data(tmp_path, monkeypatch, capsys, damage):
    shutil.copytree(RELEASE, tmp_path / "release")
    monkeypatch.chdir(tmp_path / "release")
    damage(Path("data/tale.txt-bytes/test.bin"))
    answer = rmt(capsys, "evaluate text-rmt")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "is damaged" in answer.err
