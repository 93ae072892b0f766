"""Text becomes ids and ids become the text again."""

import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmt.errors import CheckpointError, ConfigError, DataError
from rmt.text import files
from rmt.text.codes import Bytes, Characters
from rmt.text.files import whole
from rmt.text.library import LibraryTokens
from rmt.text.tokenizer import load_tokenizer
from rmt.text.vocabulary import Words, load_vocabulary, vocabulary_kind, words_of
from tests.text.tokenizer import LINES as SENTENCES
from tests.text.tokenizer import trained

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
        (Bytes([65]), b"AB", r"byte 66 \('B'\) is not in the vocabulary; leave out --vocabulary"),
        (
            Characters(["ä"]),
            "äé",
            r"character 'é' \(U\+00E9, bytes c3 a9\) is not in the vocabulary; leave out",
        ),
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
        again = load_vocabulary(place)
        assert (type(again), again.symbols) == (type(vocabulary), vocabulary.symbols)


@pytest.mark.parametrize("content", ["", "[]", '{"tokens": "sounds", "symbols": [1]}', '{"tokens": "words"}'])
def test_what_is_not_a_vocabulary_is_an_error(content, tmp_path):
    (tmp_path / "vocabulary.json").write_text(content)
    with pytest.raises(DataError, match=r"vocabulary\.json' is not a vocabulary( \(.+\))?; name a folder"):
        load_vocabulary(tmp_path)


def test_a_vocabulary_has_every_symbol_once(tmp_path):
    (tmp_path / "vocabulary.json").write_text(json.dumps({"tokens": "words", "symbols": ["a", "a"]}))
    with pytest.raises(DataError, match="each of them once"):
        load_vocabulary(tmp_path)


ODD_SYMBOLS = {  # kind of token: symbols that none of its vocabularies has
    "bytes": [[300], [-1, 104], ["a"], [104.0], [True], [None], [[104]], [2**64]],
    "characters": [["ab"], [""], [97], [None], [["a"]]],
    "words": [[1], [None], [["a"]]],
}


@pytest.mark.parametrize(
    ("kind", "symbols"), [(kind, symbols) for kind, odd in ODD_SYMBOLS.items() for symbols in odd], ids=repr
)
def test_a_symbol_of_another_kind_is_one_line_that_names_the_file(kind, symbols, tmp_path):
    (tmp_path / "vocabulary.json").write_text(json.dumps({"tokens": kind, "symbols": symbols}))
    for load, error in ((load_vocabulary, DataError), (load_tokenizer, CheckpointError)):
        with pytest.raises(
            error, match=rf"vocabulary\.json' .* \((symbols of {kind} are|its symbols are not) .*\); "
        ) as refused:
            load(tmp_path)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["bytes", "characters", "words"])
@pytest.mark.parametrize("symbols", [[], "twice", None], ids=["none", "twice", "null"])
def test_a_run_s_vocabulary_without_its_symbols_is_damaged(kind, symbols, tmp_path):
    symbols = [97, 97] if (symbols, kind) == ("twice", "bytes") else ["a", "a"] if symbols else symbols
    (tmp_path / "vocabulary.json").write_text(json.dumps({"tokens": kind, "symbols": symbols}))
    with pytest.raises(CheckpointError, match=r"vocabulary\.json' is damaged \(.*\); copy it from another"):
        load_tokenizer(tmp_path)


def described(**model):
    """A `tokenizer.json` with a model and nothing else."""
    pytest.importorskip("tokenizers")
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model})


@pytest.mark.parametrize("block", [1, 5, 30, 1000])
def test_a_tokenizer_s_ids_are_those_of_line_by_line_whatever_the_blocks(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files, "BLOCK", block)
    library, lines = trained(), [*SENTENCES, "\n", "\n", "\n", "a <eos> b\r\r\r\n", "the last line"]
    text = tmp_path / "text"
    text.write_bytes("".join(lines).encode())
    vocabulary = LibraryTokens(library.to_str())
    ids = np.concatenate([vocabulary.encode(block).ids for block in vocabulary.blocks(whole(text))]).tolist()
    assert ids == [id for line in lines for id in library.encode(line).ids]
    assert ids != library.encode("".join(lines)).ids
    assert vocabulary.decode(ids) == "".join(lines)


@given(st.text(st.characters(codec="utf-8")))
def test_a_tokenizer_of_bytes_gives_the_text_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.fixture(scope="module")
def tokenizer():
    return LibraryTokens(trained().to_str())


def test_a_tokenizer_neither_pads_nor_cuts_nor_adds_tokens(tokenizer):
    changed = trained()
    template = pytest.importorskip("tokenizers").processors.TemplateProcessing(
        single="<eos> $A", special_tokens=[("<eos>", changed.token_to_id("<eos>"))]
    )
    changed.post_processor = template
    changed.enable_padding(length=50)
    changed.enable_truncation(2)
    block = "".join(SENTENCES)
    assert LibraryTokens(changed.to_str()).encode(block).ids.tolist() == tokenizer.encode(block).ids.tolist()


def test_a_tokenizer_at_which_its_library_panics_is_refused_like_one_that_it_cannot_read(tmp_path):
    merging = {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
    damaged = described(type="BPE", continuing_subword_prefix="####", **merging)
    (tmp_path / "tokenizer.json").write_text(damaged)
    with pytest.raises(DataError, match=r"json': the tokenizers library cannot read it \(range end"):
        load_vocabulary(tmp_path / "tokenizer.json")


def test_a_tokenizer_s_file_is_written_as_it_was_read(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(trained().to_str(pretty=True).encode().replace(b"\n", b"\r\n"))
    load_vocabulary(tmp_path / "tokenizer.json").write(tmp_path / "vocabulary.json")
    assert (tmp_path / "vocabulary.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()
    assert load_vocabulary(tmp_path).kind == "tokenizer"


def test_a_tokenizer_may_leave_ids_out():
    vocabulary = LibraryTokens(described(type="BPE", vocab={"a": 5}, merges=[]))
    assert (len(vocabulary), vocabulary.encode("a").ids.tolist()) == (6, [5])


@pytest.mark.parametrize(
    "model",
    [
        {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"},
        {"type": "Unigram", "vocab": [["a", -1.0], ["?", 0.0]], "unk_id": 1},
    ],
    ids=["by-symbol", "by-id"],
)
def test_what_a_tokenizer_does_not_know_is_counted(model):
    ids, unknown = LibraryTokens(described(**model)).encode("a\nb")
    assert (ids.tolist(), unknown) in [([1, 1], 2), ([0, 1, 1], 2)]  # words, or parts of words


def test_a_tokenizer_without_an_unknown_symbol_counts_none(tokenizer):
    assert tokenizer.encode("".join([*SENTENCES, "<eos>"])).unknown == 0


def test_a_text_that_a_tokenizer_cannot_encode_is_an_error():
    vocabulary = LibraryTokens(described(type="WordLevel", vocab={"a": 0}, unk_token="?"))
    with pytest.raises(DataError, match=r"the tokenizer cannot encode it \(.*\); use another"):
        vocabulary.encode("b")


@pytest.mark.parametrize("model", [1, {}, {"type": "Sounds"}], ids=str)
def test_a_file_that_the_library_cannot_read_is_named(model, tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "junk.json").write_text(json.dumps({"model": model}))
    with pytest.raises(
        DataError, match=r"junk\.json': the tokenizers library cannot read it \(.*\); name an"
    ):
        load_vocabulary(tmp_path / "junk.json")


def test_without_the_library_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "t.json").write_text('{"model": {}}')
    with pytest.raises(DataError, match=r"t\.json': a tokenizer needs a library; install .*\[tokenizers\]'"):
        load_vocabulary(tmp_path / "t.json")


def test_a_tokenizer_is_not_made_of_a_text():
    with pytest.raises(DataError, match=r"needs a file; name a tokenizer\.json with --tokenizer"):
        LibraryTokens.of(["a\n"])


def test_an_unknown_kind_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown kind of tokens 'word'; did you mean 'words'"):
        vocabulary_kind("word")


def test_ids_are_whole_numbers_of_one_type():
    assert Bytes([65]).encode(b"AA").ids.dtype == Words(["<eos>"]).encode("\n").ids.dtype == np.int64
