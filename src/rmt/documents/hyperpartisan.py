"""Hyperpartisan news (SemEval-2019 task 4, by article): the published split, and one that does not leak.

Of the 65 test articles of the published split, 51 are also in its training set and 7 in its development set.
The clean test set has the 7 that are in neither, and the 58 articles that are in no split: 65 again. Training
and development sets are the published ones for both, so one trained model is measured on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

from rmt.documents.corpus import DocumentCorpus
from rmt.documents.task import Document
from rmt.errors import DataError
from rmt.jsonfile import parse_json

ARTICLES = "articles-training-byarticle-20181122.xml"
TRUTH = "ground-truth-training-byarticle-20181122.xml"
PUBLISHED = "hp-splits.json"
COUNT = 645  # articles of the published training set

Ids = dict[str, list[int]]


def load_hyperpartisan(folder: str | Path) -> DocumentCorpus:
    """The articles by split: train, valid, test (clean) and, where hp-splits.json is, test_published."""
    folder = Path(folder)
    for name in (ARTICLES, TRUTH):
        if not (folder / name).exists():
            raise DataError(
                f"path={str(folder)!r} has no {name}: it is part of SemEval-2019 task 4 "
                "(https://zenodo.org/record/1489920), to be unpacked there"
            )
    articles = load_articles(folder)
    ids, notes = clean_ids(), []
    if (folder / PUBLISHED).exists():
        ids["test_published"] = published_test(folder / PUBLISHED)
        notes.append("test is the clean split; test_published has 51 articles of the training set in it")
    else:
        notes.append(f"test is the clean split; for the published one put {PUBLISHED} into {folder}")
    splits = {split: [articles[number] for number in numbers] for split, numbers in ids.items()}
    return DocumentCorpus(splits, ["false", "true"], notes, positive="true")


def published_test(file: Path) -> list[int]:
    """The numbers of the published test split."""
    try:
        numbers = parse_json(file.read_text(encoding="utf-8"))["test"]
        if all(number in range(COUNT) for number in numbers):
            return list(numbers)
        reason = f"its numbers are not all from 0 to {COUNT - 1}"
    except (ValueError, LookupError, TypeError):
        reason = "it has no list test"
    raise DataError(f"{file} is no split of the articles ({reason}); get it again")


def load_articles(folder: Path) -> dict[int, Document]:
    """All articles by their number: the text without its markup, as published by the task."""
    labels = {truth.get("id"): truth.get("hyperpartisan") for truth in parse(folder / TRUTH)}
    articles = {}
    for article in parse(folder / ARTICLES):
        key = article.get("id") or ""
        text = " ".join("".join(article.itertext()).split())
        if not key.isdecimal() or key not in labels:
            raise DataError(
                f"{folder / ARTICLES} is damaged (article {key!r} is not in {TRUTH}); unpack it again"
            )
        articles[int(key)] = Document(text, str(labels[key]))
    if len(articles) != COUNT:
        raise DataError(f"{folder / ARTICLES} has {len(articles)} articles, not {COUNT}; unpack it again")
    return articles


def parse(file: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise DataError(f"{file} is damaged ({error}); unpack it again") from None


def clean_ids() -> Ids:
    """The clean split, as shipped."""
    text = resources.files("rmt.documents").joinpath("hyperpartisan_clean.json").read_text()
    ids: Ids = parse_json(text)
    return ids


def cleaned(published: Mapping[str, Sequence[int]]) -> Ids:
    """The clean split, made from the published one."""
    train, valid = set(published["train"]), set(published["dev"])
    used = train | valid | set(published["test"])
    test = (set(published["test"]) - train - valid) | (set(range(COUNT)) - used)
    return {"train": sorted(train), "valid": sorted(valid), "test": sorted(test)}
