"""A corpus is prepared once, whole or not at all."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from rmt.errors import DataError, RMTError
from rmt.text import corpora, prepare
from rmt.text.corpora import CORPORA, Known, find_source
from rmt.text.corpus import check_corpus, open_corpus, stored
from rmt.text.files import whole
from rmt.text.prepare import prepare_corpus
from tests.text.tokenizer import trained

TINY = Known(
    "wikitext-2",
    "words",
    "",
    ("wiki.train.tokens",),
    counts={"train": 6, "valid": 3, "test": 2},
    vocabulary=4,
)
needs_data = pytest.mark.skipif(
    "RMT_DATA" not in os.environ, reason="RMT_DATA names no folder with real corpora"
)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with a corpus that passes for WikiText-2."""
    monkeypatch.setitem(corpora.CORPORA, "wikitext-2", TINY)
    folder = tmp_path / "wiki"
    folder.mkdir()
    for split, text in {"train": "a b\na <unk>\n", "valid": "b c", "test": "a\n"}.items():
        (folder / f"wiki.{split}.tokens").write_text(text)
    return folder


def prepared(place, out, *, copy=None, tokens=None, **options):
    return prepare_corpus(find_source(str(place), tokens, copy), out, **options)


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_prepared_corpus_says_what_it_is(tiny, tmp_path):
    corpus = prepared("wikitext-2", tmp_path / "out", copy=tiny)
    said = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert said == corpus.description
    assert (said["name"], said["tokens"], said["vocabulary"], said["dtype"]) == (
        "wikitext-2",
        "words",
        4,
        "uint16",
    )
    assert {split: (one["tokens"], one["unknown"]) for split, one in said["splits"].items()} == {
        "train": (6, 0),
        "valid": (3, 1),
        "test": (2, 0),
    }
    assert corpus.tokens("train").tolist() == [1, 2, 0, 1, 3, 0]
    assert corpus.vocabulary().decode(corpus.tokens("valid")) == "b <unk>\n"
    assert all(len(checksum) == 64 for checksum in said["sources"].values())
    assert check_corpus(tmp_path / "out").description == said


def test_documents_are_remembered(tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(20):
        (tmp_path / "texts" / f"{number:02}.txt").write_text("é" * 5)
    corpus = prepared(tmp_path / "texts", tmp_path / "out", tokens="characters")
    assert corpus.documents("train") == list(range(0, 90, 5))
    assert corpus.documents("test") == [0]


@pytest.fixture
def wiki(tmp_path, monkeypatch):
    """A folder with three articles that pass for WikiText-2."""
    monkeypatch.setitem(corpora.CORPORA, "wikitext-2", TINY._replace(counts={"train": 34}, vocabulary=None))
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "train.txt").write_text(
        " \n = A = \n \n a b \n \n = = S = = \n \n c \n \n = B C = \n \n d \n \n = A = \n \n"
    )
    return tmp_path / "wiki"


def test_articles_of_wikitext_are_documents(wiki, tmp_path):
    corpus = prepared("wikitext-2", tmp_path / "out", copy=wiki)
    starts = corpus.documents("train")
    assert starts == [0, 20, 29]
    first, second, third = (
        corpus.vocabulary().decode(part) for part in np.split(corpus.tokens("train"), starts[1:])
    )
    assert (second, third) == ("= B C =\n\nd\n\n", "= A =\n\n")
    assert first.startswith("\n= A =\n\na b\n\n= = S = =\n")


def test_borders_of_documents_change_no_token(wiki, tmp_path):
    for tokens in ("words", "bytes", "characters"):
        ours = prepared("wikitext-2", tmp_path / f"{tokens}-known", copy=wiki, tokens=tokens)
        plain = prepared(wiki, tmp_path / f"{tokens}-plain", tokens=tokens)
        assert (len(ours.documents("train")), len(plain.documents("train"))) == (3, 1)
        assert ours.tokens("train").tolist() == plain.tokens("train").tolist()
        assert ours.vocabulary().symbols == plain.vocabulary().symbols


def test_a_folder_called_like_a_known_corpus_is_not_that_corpus(wiki, tmp_path):
    folder = wiki.rename(tmp_path / "wikitext-2")
    prepared(folder, tmp_path / "out", tokens="words")
    with pytest.raises(DataError, match="has another corpus"):
        prepared("wikitext-2", tmp_path / "out", copy=folder)


def test_the_description_has_the_documents_of_a_split_in_one_line(wiki, tmp_path):
    corpus = prepared("wikitext-2", tmp_path / "out", copy=wiki)
    text = (tmp_path / "out" / "corpus.json").read_text()
    assert '"documents": [ 0, 20, 29 ]' in text
    assert json.loads(text) == corpus.description
    assert max(map(len, text.splitlines())) < 200


def test_a_corpus_of_an_older_format_can_be_replaced(tiny, tmp_path):
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    edit(tmp_path / "out" / "corpus.json", format=1)
    with pytest.raises(DataError, match="prepare the corpus again with rmt data prepare … --force"):
        prepared("wikitext-2", tmp_path / "out", copy=tiny)
    prepared("wikitext-2", tmp_path / "out", copy=tiny, force=True)
    check_corpus(tmp_path / "out")


def test_a_tokenizer_is_kept_with_its_corpus(tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(20):
        (tmp_path / "texts" / f"{number:02}.txt").write_text("the fox\n\nand the grapes")
    file = tmp_path / "tokenizer.json"
    trained().save(str(file))
    corpus = prepared(tmp_path / "texts", tmp_path / "out", tokens="tokenizer", vocabulary=file)
    assert (tmp_path / "out" / "vocabulary.json").read_bytes() == file.read_bytes()
    assert corpus.description["vocabulary"] == trained().get_vocab_size()
    assert corpus.vocabulary().decode(corpus.tokens("train")) == "the fox\n\nand the grapes" * 18
    length = len(corpus.vocabulary().encode("the fox\n\nand the grapes").ids)
    assert corpus.documents("train") == list(range(0, 18 * length, length))
    assert check_corpus(tmp_path / "out") == corpus


def test_another_tokenizer_makes_another_corpus(tmp_path):
    (tmp_path / "train.txt").write_text("the fox and the grapes\n")
    trained(300).save(str(tmp_path / "a.json"))
    trained(280).save(str(tmp_path / "b.json"))

    def ids(vocabulary, out):
        corpus = prepared(tmp_path, tmp_path / out, tokens="tokenizer", vocabulary=tmp_path / vocabulary)
        return corpus.tokens("train").tolist()

    assert ids("a.json", "a") == ids("a.json", "a") == ids("a", "same") != ids("b.json", "b")
    with pytest.raises(DataError, match="has another corpus"):
        ids("b.json", "a")


def test_a_split_without_tokens_is_an_error(tmp_path):
    tokenizer = trained()
    tokenizer.normalizer = pytest.importorskip("tokenizers").normalizers.Strip()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "train.txt").write_text(" \n \n")
    with pytest.raises(DataError, match=r"train of '.*' has no tokens; give more text, or another tokenizer"):
        prepared(tmp_path, tmp_path / "out", tokens="tokenizer", vocabulary=tmp_path / "tokenizer.json")


@pytest.mark.parametrize(("symbols", "kind"), [(1 << 16, "<u2"), ((1 << 16) + 1, "<u4")])
def test_ids_take_two_bytes_as_long_as_they_fit(symbols, kind):
    assert stored(symbols) == np.dtype(kind)


def test_many_words_take_four_bytes(tmp_path):
    (tmp_path / "train.txt").write_text(" ".join(map(str, range(1 << 16))))
    corpus = prepared(tmp_path, tmp_path / "out", tokens="words")
    assert corpus.description["dtype"] == "uint32"
    assert corpus.tokens("train").tolist() == [*range(1, (1 << 16) + 1), 0]
    assert check_corpus(tmp_path / "out") == corpus


def test_without_train_the_vocabulary_is_of_what_is_there_and_that_is_said(tiny, tmp_path):
    (tiny / "wiki.train.tokens").unlink()
    corpus = prepared("wikitext-2", tmp_path / "out", copy=tiny)
    assert list(corpus.splits) == ["valid", "test"]
    assert corpus.vocabulary().symbols == ["<eos>", "b", "c", "a"]
    assert corpus.description["notes"] == [
        "no train split",
        "the vocabulary is made of valid and test; --vocabulary takes another corpus's",
    ]


def test_a_vocabulary_can_be_that_of_another_corpus(tiny, tmp_path):
    whole = prepared("wikitext-2", tmp_path / "whole", copy=tiny)
    (tiny / "wiki.train.tokens").unlink()
    part = prepared("wikitext-2", tmp_path / "part", copy=tiny, vocabulary=tmp_path / "whole")
    assert part.tokens("valid").tolist() == whole.tokens("valid").tolist()
    assert part.description["notes"] == ["no train split"]
    with pytest.raises(DataError, match="is of words, not bytes; use --tokens words"):
        prepared(tiny, tmp_path / "x", tokens="bytes", vocabulary=tmp_path / "whole")


def test_a_wrong_count_is_an_error_naming_both_numbers_and_leaves_nothing(tiny, tmp_path):
    (tiny / "wiki.test.tokens").write_text("a a\n")
    before = everything(tmp_path)
    with pytest.raises(DataError, match=r"test tokens of wikitext-2 in '.*': 3 instead of 2; get a whole"):
        prepared("wikitext-2", tmp_path / "deep" / "out", copy=tiny)
    (tiny / "wiki.train.tokens").write_text("a b\na a\n")
    with pytest.raises(DataError, match=r"vocabulary of wikitext-2 in '.*': 3 instead of 4"):
        prepared("wikitext-2", tmp_path / "deep" / "out", copy=tiny)
    assert everything(tmp_path) == before


def test_other_tokens_of_a_known_corpus_have_no_published_count(tiny, tmp_path):
    assert prepared("wikitext-2", tmp_path / "out", copy=tiny, tokens="bytes").splits["test"]["tokens"] == 2


def test_one_s_own_folder_may_be_called_like_a_known_corpus(tmp_path):
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2" / "train.txt").write_text("a\n")
    assert prepared(tmp_path / "wikitext-2", tmp_path / "out", tokens="words").splits["train"]["tokens"] == 2


def test_the_same_corpus_again_is_left_as_it_is(tiny, tmp_path):
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    before = (tmp_path / "out" / "corpus.json").stat().st_mtime_ns
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    assert (tmp_path / "out" / "corpus.json").stat().st_mtime_ns == before


def test_another_corpus_is_replaced_only_by_force(tiny, tmp_path):
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    with pytest.raises(
        DataError, match="has another corpus; name another folder, or replace it with --force"
    ):
        prepared(tiny, tmp_path / "out", tokens="bytes")
    assert open_corpus(tmp_path / "out").description["tokens"] == "words"
    prepared(tiny, tmp_path / "out", tokens="bytes", force=True)
    assert check_corpus(tmp_path / "out").description["tokens"] == "bytes"
    assert everything(tmp_path / "out") == sorted(
        ["corpus.json", "vocabulary.json", "train.bin", "valid.bin", "test.bin"]
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_no_corpus_is_never_replaced(tiny, tmp_path, force):
    with pytest.raises(DataError, match="exists and is not a prepared corpus; name another folder"):
        prepared("wikitext-2", tiny, copy=tiny, force=force)
    assert len(everything(tiny)) == 3


def test_a_place_that_cannot_be_written_is_an_error(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be written .*; name another folder"):
        prepared("wikitext-2", tmp_path / "file" / "out", copy=tiny)


def test_an_error_while_writing_leaves_what_was_there(tiny, tmp_path):
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    before = everything(tmp_path)
    (tiny / "wiki.test.tokens").write_bytes(b"a \xff\n")
    with pytest.raises(DataError, match="invalid UTF-8 at byte 2"):
        prepared("wikitext-2", tmp_path / "out", copy=tiny, force=True)
    assert everything(tmp_path) == before
    check_corpus(tmp_path / "out")


@pytest.mark.parametrize("moment", ["new_folder", "write_split"])
def test_of_two_processes_that_prepare_the_same_corpus_the_slower_takes_the_other_s(
    tiny, tmp_path, monkeypatch, moment
):
    original = getattr(prepare, moment)

    def overtaken(*arguments):
        monkeypatch.setattr(prepare, moment, original)
        prepared("wikitext-2", tmp_path / "out", copy=tiny)
        return original(*arguments)

    monkeypatch.setattr(prepare, moment, overtaken)
    mine = prepared("wikitext-2", tmp_path / "out", copy=tiny)
    assert mine.description == check_corpus(tmp_path / "out").description
    assert not list(tmp_path.glob(".out*"))


def test_the_slower_process_does_not_take_another_corpus(tiny, tmp_path, monkeypatch):
    original = prepare.write_split

    def overtaken(*arguments):
        monkeypatch.setattr(prepare, "write_split", original)
        prepared(tiny, tmp_path / "out", tokens="bytes")
        return original(*arguments)

    monkeypatch.setattr(prepare, "write_split", overtaken)
    with pytest.raises(DataError, match="has another corpus"):
        prepared("wikitext-2", tmp_path / "out", copy=tiny)


def edit(file: Path, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def edit_documents(starts):
    def damage(out):
        splits = open_corpus(out).splits
        splits["test"]["documents"] = starts
        edit(out / "corpus.json", splits=splits)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: (out / "test.bin").unlink(), r"test\.bin' is damaged: it is missing"),
        (
            lambda out: (out / "test.bin").write_bytes(b"\0"),
            r"test\.bin' is damaged: it has 1 bytes instead of 4",
        ),
        (
            lambda out: (out / "test.bin").write_bytes(b"\1\0\1\0"),
            r"test\.bin' is damaged: its checksum is wrong",
        ),
        (
            lambda out: (out / "test.bin").write_bytes(b"\1\0\4\0"),
            r"test\.bin' is damaged: it has the id 4, the voc",
        ),
        (
            lambda out: (out / "vocabulary.json").write_text("{}"),
            r"vocabulary\.json' is damaged: its checksum",
        ),
        (lambda out: (out / "vocabulary.json").unlink(), r"vocabulary\.json' is damaged: it is missing"),
        (lambda out: (out / "corpus.json").write_text("{"), r"corpus\.json' is damaged: it cannot be read"),
        (
            lambda out: edit(out / "corpus.json", vocabulary=5),
            r"vocabulary\.json' is damaged: it has 4 symbols",
        ),
        (
            lambda out: edit(out / "corpus.json", splits={"test": {}}),
            r"corpus\.json' is damaged: 'tokens' is not",
        ),
        *(
            (edit_documents(starts), r"damaged: documents of test are not")
            for starts in ([], [1], [0, 2, 1], [0, 3])
        ),
        (lambda out: edit(out / "corpus.json", format=9), r"has format 9, this release reads 2; prepare the"),
        (
            lambda out: edit(out / "corpus.json", format=1),
            r"has format 1, this release reads 2; prepare the corpus again with rmt data prepare … --force",
        ),
        (lambda out: (out / "corpus.json").unlink(), r"out' is not a prepared corpus: no corpus\.json"),
    ],
)
def test_damage_is_found_and_the_file_named(tiny, tmp_path, damage, message):
    prepared("wikitext-2", tmp_path / "out", copy=tiny)
    damage(tmp_path / "out")
    with pytest.raises(RMTError, match=message):
        check_corpus(tmp_path / "out")


@needs_data
@pytest.mark.parametrize(("name", "splits"), [("wikitext-2", 3), ("wikitext-103", 2)])
def test_the_real_corpora_have_their_published_counts(name, splits, tmp_path):
    corpus = prepared(name, tmp_path / "out", copy=Path(os.environ["RMT_DATA"]) / name)
    assert len(corpus.splits) == splits
    assert {split: one["tokens"] for split, one in corpus.splits.items()}.items() <= CORPORA[
        name
    ].counts.items()
    assert all(one["unknown"] == 0 for one in corpus.splits.values())
    articles = {"train": 600, "valid": 60, "test": 60}  # as published; train is that of WikiText-2
    assert {split: len(corpus.documents(split)) for split in corpus.splits}.items() <= articles.items()


@needs_data
def test_the_prefix_of_enwik8_is_cut_at_90_and_95_per_cent(tmp_path):
    (file,) = (Path(os.environ["RMT_DATA"]) / "enwik8-prefix").iterdir()
    corpus = prepared(file, tmp_path / "out")
    assert [one["tokens"] for one in corpus.splits.values()] == [3_738_600, 207_700, 207_700]
    assert whole(file).size == 4_154_000


def test_enwik8_has_the_bytes_that_occur_and_enwik8_204_all_but_the_line_break(tmp_path, monkeypatch):
    text = b"<page>\n<title>A</title>\n" * 100
    sizes = {"size": len(text), "md5": None}
    whole, without = CORPORA["enwik8"]._replace(**sizes), CORPORA["enwik8-204"]._replace(**sizes)
    symbols = len(set(text))
    monkeypatch.setitem(corpora.CORPORA, "enwik8", whole._replace(vocabulary=symbols, total=len(text)))
    monkeypatch.setitem(
        corpora.CORPORA, "enwik8-204", without._replace(vocabulary=symbols - 1, total=len(text) - 200)
    )
    (tmp_path / "enwik8").write_bytes(text)
    kept = prepared("enwik8", tmp_path / "kept", copy=tmp_path)
    dropped = prepared("enwik8-204", tmp_path / "dropped", copy=tmp_path)
    assert kept.vocabulary().decode(kept.tokens("train")) == text[: len(text) * 90 // 100]
    splits = [text[:2160], text[2160:2280], text[2280:]]  # cut before line breaks are dropped
    for split, part in zip(("train", "valid", "test"), splits, strict=True):
        assert dropped.vocabulary().decode(dropped.tokens(split)) == part.replace(b"\n", b"")
    assert 10 not in dropped.vocabulary().symbols
    monkeypatch.setitem(corpora.CORPORA, "enwik8-204", without._replace(vocabulary=None, total=7))
    with pytest.raises(DataError, match=r"tokens of enwik8-204 in .*: 2,200 instead of 7"):
        prepared("enwik8-204", tmp_path / "wrong", copy=tmp_path)


def test_both_are_made_of_the_same_file():
    ours, theirs = CORPORA["enwik8"], CORPORA["enwik8-204"]
    assert (ours.folder, ours.url, ours.md5) == (theirs.folder, theirs.url, theirs.md5)
    assert (ours.vocabulary, theirs.vocabulary, theirs.dropped) == (205, 204, b"\n")
    assert ours.total - theirs.total == 1_128_023


def test_a_symbol_that_a_given_vocabulary_lacks_is_named_with_its_byte(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "train.txt").write_text("ab\n")
    (tmp_path / "b" / "train.txt").write_text("ab\nabé")
    prepared(tmp_path / "a", tmp_path / "first", tokens="characters")
    with pytest.raises(
        DataError, match=r"train\.txt' has character 'é' \(U\+00E9, bytes c3 a9\) at byte 5: not"
    ):
        prepared(tmp_path / "b", tmp_path / "second", tokens="characters", vocabulary=tmp_path / "first")
