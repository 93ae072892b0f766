"""Text files are found, cut and read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmt.errors import DataError
from rmt.text import files
from rmt.text.files import (
    SPLITS,
    FileSpan,
    articles,
    cut,
    documents,
    line_blocks,
    local_source,
    text_blocks,
    whole,
)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return documents(folder)


def content(splits):
    """The bytes of all splits, joined."""
    return {
        split: b"".join(piece.file.read_bytes()[piece.start : piece.stop] for piece in pieces)
        for split, pieces in splits.items()
    }


def test_bytes_are_cut_at_90_and_95_per_cent(tmp_path):
    splits = cut(write(tmp_path, a="x" * 1000), "bytes")
    assert [sum(piece.size for piece in splits[split]) for split in SPLITS] == [900, 50, 50]


@settings(max_examples=30)
@given(text=st.text("aé€😀\n", min_size=400, max_size=600), tokens=st.sampled_from(["bytes", "characters"]))
def test_splits_together_are_the_text_and_no_character_is_cut(text, tokens, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    parts = content(cut(write(folder, a=text[:150], b=text[150:]), tokens))
    assert b"".join(parts.values()) == text.encode()
    if tokens == "characters":
        assert "".join(part.decode() for part in parts.values()) == text


@pytest.mark.parametrize("tokens", ["words", "tokenizer"])
def test_words_and_a_tokenizer_s_tokens_are_cut_between_lines(tmp_path, tokens):
    text = "".join(f"line {number}\n" for number in range(100))
    parts = content(cut(write(tmp_path, a=text), tokens))
    assert b"".join(parts.values()) == text.encode()
    assert all(part.endswith(b"\n") for part in parts.values())
    assert parts["valid"].startswith(b"line 9")


ARTICLES = [
    " \n = First = \n \n text \n \n = = Section = = \n \n text \n \n = = = Part = = = \n \n text \n \n",
    " = E = mc² = \n \n where \n = 1 and k = \n 2 \n \n = half a title = \n text \n \n = not closed \n \n",
    " = <unk> = \n \n",
    " = Title at the end = \n \n",
]


def test_an_article_of_wikitext_begins_at_a_title_between_blank_lines(tmp_path):
    (file,) = write(tmp_path, a="".join(ARTICLES))
    pieces = articles(file)
    assert [file.read_bytes()[piece.start : piece.stop].decode() for piece in pieces] == ARTICLES


@given(order=st.lists(st.sampled_from([" \n", " = A = \n", " = = B = = \n", "a\n", "= \n"]), min_size=1))
def test_articles_together_are_the_file(order, tmp_path_factory):
    (file,) = write(tmp_path_factory.mktemp("wiki"), a="".join(order))
    pieces = articles(file)
    assert content({"a": pieces})["a"] == file.read_bytes()
    assert all(piece.size for piece in pieces)
    triples = zip(order, order[1:], order[2:], strict=False)
    inner = [three for three in list(triples)[1:] if three == (" \n", " = A = \n", " \n")]
    assert len(pieces) == 1 + len(inner)


def test_twenty_documents_stay_whole(tmp_path):
    found = write(tmp_path, **{f"d{number:02}": "x" * 10 for number in range(20)})
    splits = cut(found, "bytes")
    assert [len(splits[split]) for split in SPLITS] == [18, 1, 1]
    assert all(piece.start == 0 and piece.size == 10 for pieces in splits.values() for piece in pieces)


@pytest.mark.parametrize("large", [0, 10, 19])
def test_no_split_is_without_documents_however_large_one_is(tmp_path, large):
    sizes = {f"d{number:02}": "x" * (10_000 if number == large else 1) for number in range(20)}
    assert all(cut(write(tmp_path, **sizes), "bytes")[split] for split in SPLITS)


def test_documents_are_in_the_order_of_their_paths_without_hidden_ones(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("z.txt", "b/2.txt", "b/1.txt", ".hidden", "a.txt"):
        (tmp_path / name).write_text(name)
    assert [str(file.relative_to(tmp_path)) for file in documents(tmp_path)] == [
        "a.txt",
        "b/1.txt",
        "b/2.txt",
        "z.txt",
    ]


def test_a_folder_with_a_train_file_is_split_already(tmp_path):
    for split in SPLITS:
        (tmp_path / f"{split}.txt").write_text(split)
    assert content(local_source(tmp_path, "words").splits) == {split: split.encode() for split in SPLITS}


def test_a_folder_with_two_splits_is_split_already(tmp_path):
    for split in ("valid", "test"):
        (tmp_path / f"wiki.{split}.tokens").write_text(split)
    assert list(local_source(tmp_path, "words").splits) == ["valid", "test"]


def test_two_files_for_one_split_are_an_error(tmp_path):
    (tmp_path / "train.txt").write_text("a")
    (tmp_path / "wiki.train.tokens").write_text("b")
    with pytest.raises(DataError, match=r"has both train.txt and wiki.train.tokens; delete one"):
        local_source(tmp_path, "words")


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
def test_blocks_together_are_the_text_whatever_their_size(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files, "BLOCK", block)
    text = "é€\n😀 a\n\nlast"
    (file,) = write(tmp_path, a=text)
    assert "".join(text_blocks(whole(file))) == text
    lines = list(line_blocks(whole(file)))
    assert "".join(lines) == text
    assert all(one.endswith("\n") for one in lines[:-1])


@pytest.mark.parametrize("block", [1, 4, 100])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"abcde\xff", "invalid UTF-8 at byte 5"),
        ("aé€".encode()[:-1], "invalid UTF-8 at byte 3"),
        (b"abcdef\0", "a NUL byte at byte 6"),
    ],
    ids=["junk", "cut", "nul"],
)
def test_what_is_not_text_is_an_error_that_names_file_and_byte(tmp_path, monkeypatch, block, data, message):
    monkeypatch.setattr(files, "BLOCK", block)
    (file,) = write(tmp_path, a=data)
    with pytest.raises(DataError, match=rf"a\.md' has {message}; mend it, or use --tokens bytes"):
        list(text_blocks(whole(file)))


def test_the_place_of_junk_is_counted_from_the_start_of_the_file(tmp_path):
    (file,) = write(tmp_path, a=b"abcdef\xff")
    with pytest.raises(DataError, match="at byte 6"):
        list(text_blocks(FileSpan(file, 4, 7)))


@pytest.mark.parametrize(
    ("text", "tokens", "message"),
    [
        ("", "bytes", "is empty; put its text there"),
        ("x" * 9, "bytes", "too few bytes to split 90/5/5: valid would be empty"),
        ("one line", "words", "too few lines to split 90/5/5: valid would be empty"),
        ("one line", "tokenizer", "too few lines to split 90/5/5: valid would be empty"),
    ],
    ids=["empty", "short", "one-line", "one-line-for-a-tokenizer"],
)
def test_a_text_too_short_to_split_is_an_error(tmp_path, text, tokens, message):
    with pytest.raises(DataError, match=message):
        cut(write(tmp_path, a=text), tokens)


def test_a_place_without_text_is_an_error(tmp_path):
    with pytest.raises(DataError, match="has no files; put text files there"):
        documents(tmp_path)
    with pytest.raises(DataError, match="does not exist; name a text file"):
        documents(tmp_path / "no")
