"""Results of fine-tuning as tables, means over seeds: one of each set of scores, one of language models."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.documents.stored import renamed

HEADINGS = (
    "data",
    "backbone",
    "segments",
    "memory",
    "depth",
    "seeds",
    "F1, test",
    "F1, published",
    "accuracy, test",
)
SCORES = {"f1", "accuracy"}  # of these headings; runs with others have a table of their own
LANGUAGE_HEADINGS = ("data", "backbone", "segments and cache", "memory", "depth", "seeds")
# of a language model, by what a segment starts from and by what it is compared with, in this order
PERPLEXITIES = ("carried", "memory_reset", "reset", "cache", "plain", "full_attention")
INCIDENTAL = (
    "seed",
    "fold",
    "device",
    "at_once",
    "path",
    "checkpoint",
)  # what runs of one setting may differ in
Result = dict[str, Any]


class DocumentTable(NamedTuple):
    """Headings, and a row per setting."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def is_documents(result: Result) -> bool:
    return result.get("recipe") == "finetune"


def is_language(result: Result) -> bool:
    """Whether a run of `rmt finetune` is a language model of a text."""
    return result["config"].get("task") == "lm"


def document_tables(results: Iterable[Result]) -> list[DocumentTable]:
    """Tables of classes, of every other set of scores, and of language models, as far as there are any."""
    by_scores: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    languages: list[Result] = []
    for result in results:
        scores = tuple(result["metrics"]["test"])
        if is_language(result):
            languages.append(result)
        else:
            by_scores[() if {*scores} == SCORES else scores].append(result)
    classes = by_scores.pop((), [])
    tables = [DocumentTable(HEADINGS, documents_table(classes))] if classes else []
    tables += [scores_table(members, scores) for scores, members in by_scores.items()]
    return tables + ([language_table(languages)] if languages else [])


def documents_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """A row per setting, in the order of the first result of each."""
    return [row(members) for members in by_setting(results)]


def by_setting(results: Iterable[Result]) -> list[list[Result]]:
    """The seeds of each setting, whatever release they are of, in the order of the first of each."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        config = {"cache": 0, "sink": None, **renamed(result["config"])}
        settings = {name: value for name, value in config.items() if name not in INCIDENTAL}
        groups[str(sorted(settings.items()))].append(result)
    return list(groups.values())


def row(results: list[Result]) -> tuple[str, ...]:
    return (
        *setting(results),
        spread(results, "test", "f1"),
        spread(results, "test_published", "f1"),
        spread(results, "test", "accuracy"),
    )


def setting(results: list[Result]) -> tuple[str, ...]:
    """What is before the scores in a row of documents."""
    config = results[0]["config"]
    return (
        Path(config["data"]).name,
        Path(config["backbone"]).name,
        str(config["segments"]),
        f"{config['memory']}, cache {config['cache']}" if config.get("cache") else str(config["memory"]),
        str(config["depth"]),
        str(len(results)),
    )


def scores_table(results: Iterable[Result], scores: Sequence[str]) -> DocumentTable:
    """Runs whose task has other scores than F1 and accuracy alone."""
    data, *others = HEADINGS[: len(LANGUAGE_HEADINGS)]
    rows = [
        (
            *setting(members)[:1],
            str(members[0]["config"].get("task")),
            *setting(members)[1:],
            *(spread(members, "test", name) for name in scores),
        )
        for members in by_setting(results)
    ]
    return DocumentTable((data, "task", *others, *(f"{name}, test" for name in scores)), rows)


def language_table(results: list[Result]) -> DocumentTable:
    """Perplexities of decoders that learned a text, those that any of the runs has measured."""
    measured = [name for name in PERPLEXITIES if any(name in result["metrics"]["test"] for result in results)]
    rows = [
        (
            *language_setting(members),
            *(spread(members, "test", name, ".2f") for name in measured),
        )
        for members in by_setting(results)
    ]
    return DocumentTable((*LANGUAGE_HEADINGS, *(name.replace("_", " ") for name in measured)), rows)


def language_setting(results: list[Result]) -> tuple[str, ...]:
    """What is before the perplexities; the model's name has the lengths that nobody set."""
    config = results[0]["config"]
    kind = config.get("kind")
    return (
        Path(config["data"]).name,
        Path(config["backbone"]).name,
        results[0]["model"].partition(", ")[2],
        f"{config['memory']} {kind}" if kind else str(config["memory"]),
        str(config["depth"]),
        str(len(results)),
    )


def spread(results: list[Result], split: str, metric: str, form: str = ".3f") -> str:
    """Mean ± sample deviation over seeds; a dash where the split was not measured."""
    measured = [result["metrics"].get(split, {}) for result in results]
    values = [scores[metric] for scores in measured if metric in scores]
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:{form}} (1 seed)"
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"
