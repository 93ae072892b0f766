"""Text to ids and back: whole, and in pieces that are cut wherever a tokenizer says."""

import pytest

from rmt.errors import DataError
from rmt.tasks.copy import Copy
from rmt.tasks.quadratic import Quadratic
from rmt.tasks.tokenizer import SymbolTokenizer
from rmt.tasks.unknown import UnknownRule
from rmt.text.codes import Bytes, Characters
from rmt.text.library import LibraryTokens
from rmt.text.tokenizer import of_vocabulary
from rmt.text.vocabulary import Words
from tests.text.tokenizer import trained

TEXT = "Käse  und\nWein, né?\n\nUnd so weiter\n"
VOCABULARIES = {
    "bytes": Bytes.of([TEXT.encode()]),
    "characters": Characters.of([TEXT]),
    "words": Words.of([TEXT]),
}


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_text_in_pieces_is_the_text_as_it_was_prepared(kind, size):
    vocabulary = VOCABULARIES[kind]
    tokenizer, ids, rest = of_vocabulary(vocabulary), [], b""
    content = TEXT.encode()
    for start in range(0, len(content), size):
        rest += content[start : start + size]
        cut = tokenizer.complete_prefix(rest)
        ids += tokenizer.encode(rest[:cut].decode("utf-8", "surrogateescape"))
        rest = rest[cut:]
    prepared = vocabulary.encode(content if kind == "bytes" else TEXT).ids.tolist()
    assert ids == prepared == tokenizer.encode(TEXT)
    assert rest == b""


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_ids_are_spoken_one_by_one(kind):
    tokenizer = of_vocabulary(VOCABULARIES[kind])
    spaces = TEXT if kind != "words" else TEXT.replace("  ", " ")
    assert tokenizer.decode(tokenizer.encode(TEXT)) == spaces


def test_a_prompt_of_words_has_no_line_break_at_its_end():
    tokenizer = of_vocabulary(VOCABULARIES["words"])
    assert tokenizer.decode(tokenizer.encode("Und so")) == "Und so"


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_tokenizer_of_ones_own_sees_whole_lines_and_speaks_what_it_read(size):
    vocabulary = LibraryTokens(trained().to_str())
    tokenizer, text = of_vocabulary(vocabulary), "the fox é\nand the 狐 of water\n"
    ids, rest = [], b""
    for start in range(0, len(text.encode()), size):
        rest += text.encode()[start : start + size]
        cut = tokenizer.complete_prefix(rest)
        ids += tokenizer.encode(rest[:cut].decode())
        rest = rest[cut:]
    assert ids == vocabulary.encode(text).ids.tolist()
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids * 9) == text * 9


def test_half_a_character_is_spoken_with_its_other_half():
    tokenizer = of_vocabulary(Bytes(range(256)))
    decode = tokenizer.decoder()
    assert [decode(byte) for byte in "é".encode()] == ["", "é"]


@pytest.mark.parametrize("kind", VOCABULARIES)
def test_a_symbol_that_the_vocabulary_does_not_have_is_named(kind):
    with pytest.raises(
        DataError,
        match=r"(byte 90 \('Z'\)|character 'Z' .*|word 'Zoo') at byte 0 .* is not in the model's vocabulary",
    ):
        of_vocabulary(VOCABULARIES[kind]).encode("Zoo")


def test_bytes_that_are_no_text_are_an_error_for_characters_only():
    with pytest.raises(DataError, match="not UTF-8"):
        of_vocabulary(VOCABULARIES["characters"]).encode("\udcff")
    assert of_vocabulary(Bytes(range(256))).encode("\udcff") == [255]


@pytest.mark.parametrize("rule", ["skip", "replace:a"])
def test_a_tokenizer_of_the_library_goes_past_any_number_of_bytes_that_are_no_text(rule):
    tokenizer = of_vocabulary(LibraryTokens(trained().to_str())).with_unknown(UnknownRule.parse(rule))
    result = tokenizer.tokenize(b"the fox" + b"\xff" * 5000 + b" the crow\n")
    assert (result.unknown, result.problem) == (5000, "")
    assert tokenizer.decode(result.ids) == "the fox" + "a" * 5000 * (rule != "skip") + " the crow\n"


def test_a_task_is_written_with_its_symbols():
    tokenizer = Copy(length=4).tokenizer()
    assert tokenizer.encode("0 3 | .") == [2, 5, 1, 0]
    assert tokenizer.decode([2, 5, 1, 0]) == "0 3 | ."


def test_a_task_whose_symbols_are_characters_is_written_with_them_spaces_included():
    tokenizer, task = Quadratic().tokenizer(), Quadratic()
    ids = task.split("test", 1).tokens[0].tolist()
    assert tokenizer.encode(tokenizer.decode(ids)) == ids
    assert tokenizer.decode(tokenizer.encode("x^2-3*x+2=0   ")) == "x^2-3*x+2=0   "


def test_symbols_that_are_not_told_apart_are_written_with_ids():
    assert SymbolTokenizer.of(["a", "a", "b c"]).encode("0 2") == [0, 2]
