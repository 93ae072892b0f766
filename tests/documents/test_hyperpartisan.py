"""Hyperpartisan news: the files of the task, the published split, and the one that does not leak."""

import json

import pytest

from rmt.documents.hyperpartisan import (
    ARTICLES,
    COUNT,
    PUBLISHED,
    TRUTH,
    clean_ids,
    cleaned,
    load_hyperpartisan,
)
from rmt.errors import DataError


def write_task(folder, count=COUNT):
    """The task's two files with made-up articles."""
    articles = "".join(
        f'<article id="{number:07d}" title="T"><p>Text  {number} <a href="x">and</a> more</p></article>'
        for number in range(count)
    )
    truth = "".join(
        f'<article hyperpartisan="{str(number % 3 == 0).lower()}" id="{number:07d}"/>'
        for number in range(count)
    )
    for name, body in ((ARTICLES, articles), (TRUTH, truth)):
        (folder / name).write_text(f'<?xml version="1.0"?><articles>{body}</articles>')
    return folder


def published():
    """A split that leaks as the published one does: 51 of its test articles in train, 7 in dev."""
    ids = clean_ids()
    leaking = ids["train"][:51] + ids["valid"][:7] + ids["test"][:7]
    return {"train": ids["train"], "dev": ids["valid"], "test": leaking}


def test_the_clean_split_is_disjoint_and_has_the_published_sizes():
    ids = clean_ids()
    assert {split: len(numbers) for split, numbers in ids.items()} == {"train": 516, "valid": 64, "test": 65}
    assert len({number for numbers in ids.values() for number in numbers}) == COUNT


def test_the_clean_split_is_made_from_the_published_one():
    assert cleaned(published()) == clean_ids()


def test_articles_are_read_without_markup_and_measured_on_both_splits(tmp_path):
    (write_task(tmp_path) / PUBLISHED).write_text(json.dumps(published()))
    corpus = load_hyperpartisan(tmp_path)
    assert {split: len(documents) for split, documents in corpus.splits.items()} == {
        "train": 516,
        "valid": 64,
        "test": 65,
        "test_published": 65,
    }
    first = clean_ids()["train"][0]
    assert corpus.splits["train"][0][:2] == (f"Text {first} and more", str(first % 3 == 0).lower())
    assert corpus.labels == ["false", "true"]
    assert len(set(corpus.splits["train"]) & set(corpus.splits["test_published"])) == 51
    assert not set(corpus.splits["train"]) & set(corpus.splits["test"])


def test_without_the_published_split_the_clean_one_is_enough(tmp_path):
    corpus = load_hyperpartisan(write_task(tmp_path))
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert "hp-splits.json" in corpus.notes[0]


def test_missing_or_damaged_files_are_named(tmp_path):
    with pytest.raises(DataError, match="has no articles-training-byarticle"):
        load_hyperpartisan(tmp_path)
    with pytest.raises(DataError, match="has 5 articles, not 645"):
        load_hyperpartisan(write_task(tmp_path, 5))
    (tmp_path / ARTICLES).write_text("<articles><article>")
    with pytest.raises(DataError, match="is damaged"):
        load_hyperpartisan(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"{}", b'{"test": 1}', b'{"test": [9999]}'])
def test_a_published_split_that_is_none_is_named(tmp_path, content):
    (write_task(tmp_path) / PUBLISHED).write_bytes(content)
    with pytest.raises(DataError, match=r"hp-splits\.json is no split of the articles.*get it again"):
        load_hyperpartisan(tmp_path)


def test_articles_without_a_number_or_a_truth_are_damage(tmp_path):
    write_task(tmp_path)
    for text in ("<articles><article/></articles>", '<articles><article id="7"/></articles>'):
        (tmp_path / ARTICLES).write_text(text)
        with pytest.raises(DataError, match="is damaged"):
            load_hyperpartisan(tmp_path)
