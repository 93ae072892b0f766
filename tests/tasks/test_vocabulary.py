"""Text becomes ids and ids become the text again."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmt.errors import ConfigError, DataError
from rmt.tasks.vocabulary import Bytes, Characters, Words, read_vocabulary, vocabulary_kind, words_of

LINES = st.lists(st.lists(st.text("aAé€<>", min_size=1, max_size=4), max_size=5), max_size=5)


def test_word_ids_are_eos_then_frequency_then_first_appearance():
    vocabulary = Words.of(["b a c\n", "c b\nc d"])
    assert vocabulary.symbols == ["<eos>", "c", "b", "a", "d"]
    assert vocabulary.encode("a b\n\nc").ids.tolist() == [3, 2, 0, 0, 1, 0]


def test_words_keep_their_case_and_lose_only_white_space():
    assert words_of(" The  the\t<unk> \u3000x\r\n \n") == ["The", "the", "<unk>", "x", "<eos>", "<eos>"]


@given(LINES)
def test_words_come_back_with_single_spaces(lines):
    text = "".join(" ".join(line) + "\n" for line in lines)
    vocabulary = Words.of([text])
    ids = vocabulary.encode(text).ids
    assert vocabulary.decode(ids) == text
    assert len(ids) == sum(map(len, lines)) + len(lines)
    assert set(ids.tolist()) | {0} == set(range(len(vocabulary)))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_characters_come_back_exactly(text):
    vocabulary = Characters.of([text])
    assert vocabulary.symbols == sorted(set(text))
    assert vocabulary.decode(vocabulary.encode(text).ids) == text


@given(st.binary(min_size=1))
def test_bytes_come_back_exactly(data):
    vocabulary = Bytes.of([data])
    assert vocabulary.symbols == sorted(set(data))
    assert vocabulary.decode(vocabulary.encode(data).ids) == data


def test_new_words_become_unk_where_there_is_one_and_are_counted():
    ids, unknown = Words.of(["a <unk>\n"]).encode("a new word\n")
    assert ids.tolist() == [1, 2, 2, 0]
    assert unknown == 2


@pytest.mark.parametrize(
    ("vocabulary", "block", "message"),
    [
        (Words(["<eos>", "a"]), "a b", "word 'b' is not in the vocabulary, which has no <unk>; replace"),
        (Bytes([65]), b"AB", "byte 66 is not in the vocabulary; leave out --vocabulary"),
        (Characters(["ä"]), "äé", "character 'é' is not in the vocabulary; leave out --vocabulary"),
    ],
    ids=["words", "bytes", "characters"],
)
def test_a_symbol_without_an_id_is_an_error(vocabulary, block, message):
    with pytest.raises(DataError, match=message):
        vocabulary.encode(block)


@pytest.mark.parametrize(
    "vocabulary", [Words(["<eos>", "é"]), Bytes([0, 255]), Characters(["\n", "€"])], ids=lambda one: one.kind
)
def test_a_vocabulary_is_written_and_read(vocabulary, tmp_path):
    vocabulary.write(tmp_path / "vocabulary.json")
    for place in (tmp_path, tmp_path / "vocabulary.json"):
        again = read_vocabulary(place)
        assert (type(again), again.symbols) == (type(vocabulary), vocabulary.symbols)


@pytest.mark.parametrize("content", ["", "[]", '{"tokens": "sounds", "symbols": [1]}', '{"tokens": "words"}'])
def test_what_is_not_a_vocabulary_is_an_error(content, tmp_path):
    (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(DataError, match=r"vocabulary\.json' is not a vocabulary; name a folder"):
        read_vocabulary(tmp_path)


def test_a_vocabulary_has_every_symbol_once(tmp_path):
    (tmp_path / "vocabulary.json").write_text(json.dumps({"tokens": "words", "symbols": ["a", "a"]}))
    with pytest.raises(DataError, match="each of them once"):
        read_vocabulary(tmp_path)


def test_an_unknown_kind_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown kind of tokens 'word'; did you mean 'words'"):
        vocabulary_kind("word")


def test_ids_are_whole_numbers_of_one_type():
    assert Bytes([65]).encode(b"AA").ids.dtype == Words(["<eos>"]).encode("\n").ids.dtype == np.int64
