"""Tokenizers of tasks: written down and restored, and what becomes of symbols they do not know."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmt.errors import CheckpointError, ConfigError, DataError
from rmt.tasks import make_task
from rmt.tasks.babi import HashedWords, HashedWordTokenizer
from rmt.tasks.tokenizer import SymbolTokenizer, WordTokenizer
from rmt.tasks.unknown import UnknownRule
from rmt.text.codes import Bytes, Characters
from rmt.text.library import LibraryTokens
from rmt.text.tokenizer import (
    ByteTokenizer,
    CharacterTokenizer,
    LineTokenizer,
    has_tokenizer,
    load_tokenizer,
    write_tokenizer,
)
from tests.text.tokenizer import trained

SKIP, REPLACE = UnknownRule("skip"), UnknownRule("replace", "b")
TOKENIZERS = {
    "words": WordTokenizer(["<eos>", "a", "b"]),
    "symbols": SymbolTokenizer(["a", "b", "|"]),
    "blank": SymbolTokenizer.of(["", "a", "b"]),
    "bytes": ByteTokenizer(Bytes(b"\n ab")),
    "characters": CharacterTokenizer(Characters(["\n", " ", "a", "b", "é"])),
    "hashed-words": HashedWordTokenizer(HashedWords(["a", "b"], 7)),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_is_restored_from_its_folder(tmp_path, name):
    tokenizer = TOKENIZERS[name]
    assert not has_tokenizer(tmp_path)
    write_tokenizer(tmp_path, tokenizer)
    again = load_tokenizer(tmp_path)
    assert type(again) is type(tokenizer)
    assert again.shown() == tokenizer.shown()
    assert again.encode("a b a") == tokenizer.encode("a b a")
    assert json.loads((tmp_path / "vocabulary.json").read_text())["tokens"] == tokenizer.kind


@pytest.mark.parametrize("text", ["31415|", "3 1 4 1 5 |", "31415 |\n", "\n314\t15|"])
def test_symbols_of_one_character_may_stand_apart_or_together(text):
    assert SymbolTokenizer(list("0123456789|")).encode(text) == [3, 1, 4, 1, 5, 10]


def test_symbols_of_several_characters_are_never_parted():
    numbers = SymbolTokenizer([str(number) for number in range(12)])
    assert numbers.encode("10 11 1") == [10, 11, 1]
    with pytest.raises(DataError, match="token '12' at byte 2 of the text"):
        numbers.encode("1 12")
    with pytest.raises(DataError, match="token '1011' at byte 0 of the text"):
        numbers.encode("1011")


def test_an_unknown_character_among_symbols_is_named_with_its_own_byte():
    with pytest.raises(DataError, match="token 'x' at byte 4 of the text"):
        SymbolTokenizer(list("0123|")).encode("12 3x1|")


def test_the_end_of_a_line_is_a_sign_to_a_reader():
    assert ByteTokenizer(Bytes([10, 97, 255])).shown() == ["↵", "a", "\\xff"]
    assert CharacterTokenizer(Characters(["\n", "a", "\t"])).shown() == ["↵", "a", "\\t"]


def test_a_tokenizer_of_the_library_is_restored_byte_for_byte(tmp_path):
    tokenizer = LineTokenizer(LibraryTokens(trained().to_str()))
    write_tokenizer(tmp_path, tokenizer)
    assert (tmp_path / "tokenizer.json").read_text() == trained().to_str()
    assert load_tokenizer(tmp_path).encode("the fox\n") == tokenizer.encode("the fox\n")


@pytest.mark.parametrize("name", ["copy", "reverse", "retrieval", "quadratic"])
def test_what_a_task_writes_is_what_its_tokenizer_reads(tmp_path, name):
    task = make_task(name)
    write_tokenizer(tmp_path, task.tokenizer())
    tokenizer = load_tokenizer(tmp_path)
    ids = task.split("test", 1).tokens[0].tolist()
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


class Shouting(WordTokenizer):
    """A tokenizer of a task of one's own."""

    kind = "shouting"


def test_a_tokenizer_of_ones_own_is_found_by_its_module(tmp_path):
    write_tokenizer(tmp_path, Shouting(["a", "b"]))
    assert type(load_tokenizer(tmp_path)) is Shouting


def test_a_damaged_tokenizer_is_named(tmp_path):
    (tmp_path / "vocabulary.json").write_text('{"tokens": "sounds"}')
    with pytest.raises(CheckpointError, match=r"vocabulary\.json' is damaged"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("words", "word 'z'"),
        ("symbols", "token 'z'"),
        ("bytes", "byte 122 ('z')"),
        ("characters", "character 'z' (U+007A, bytes 7a)"),
    ],
)
def test_a_symbol_that_is_not_known_stops_or_is_skipped_or_replaced(name, problem):
    tokenizer, text = TOKENIZERS[name], b"a b z a"
    known = tokenizer.encode("a b ")
    stopped = tokenizer.tokenize(text)
    assert stopped == (known, 4, 0, problem)
    with pytest.raises(DataError, match="at byte 4 of the text is not in the model's vocabulary; go past it"):
        tokenizer.encode(text.decode())
    skipped = tokenizer.with_unknown(SKIP).tokenize(text)
    assert skipped == ([*known, *tokenizer.encode(" a")], len(text), 1, "")
    replaced = tokenizer.with_unknown(REPLACE).tokenize(text)
    assert replaced == (tokenizer.encode("a b b a"), len(text), 1, "")


def test_words_become_unk_where_there_is_one_and_are_counted():
    tokenizer = WordTokenizer(["<eos>", "<unk>", "a"])
    assert tokenizer.tokenize(b"a z\na y ") == ([2, 1, 0, 2, 1], 8, 2, "")


@given(st.binary(max_size=40))
def test_every_byte_is_accounted_for_whatever_the_rule(text):
    for name in ("bytes", "characters"):
        tokenizer = TOKENIZERS[name]
        stopped = tokenizer.tokenize(text)
        assert (stopped.size == len(text)) == (not stopped.problem)
        assert stopped.ids == tokenizer.tokenize(text[: stopped.size]).ids
        skipped, replaced = (tokenizer.with_unknown(rule).tokenize(text) for rule in (SKIP, REPLACE))
        assert skipped.size == replaced.size == len(text)
        assert len(replaced.ids) == len(skipped.ids) + skipped.unknown


def test_a_rule_is_read_from_its_text():
    assert UnknownRule.parse("skip") == SKIP
    assert UnknownRule.parse("replace:b") == REPLACE
    assert UnknownRule.parse("replace::") == ("replace", ":")
    for text in ("", "drop", "replace", "replace:"):
        with pytest.raises(ConfigError, match="is not error, skip or replace:SYMBOL"):
            UnknownRule.parse(text)


def test_what_replaces_has_to_be_known_itself():
    with pytest.raises(ConfigError, match="replace:z names a symbol that the model does not know, either"):
        TOKENIZERS["characters"].with_unknown(UnknownRule("replace", "z"))


def test_a_byte_can_be_named_by_its_value():
    rule = UnknownRule("replace", "0x0a")
    assert TOKENIZERS["bytes"].with_unknown(rule).tokenize(b"az").ids == [2, 0]
