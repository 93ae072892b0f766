"""Results of many runs as one table, the paper's numbers beside ours."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.documents.report import document_tables, is_documents
from rmt.errors import ConfigError, RMTError
from rmt.experiments.cells import RECORD
from rmt.experiments.paper import PUBLISHED, PublishedCell
from rmt.experiments.settings import dotted
from rmt.experiments.shown import REMEDY, Result, shown_result
from rmt.experiments.spelling import spellings
from rmt.jsonfile import json_lines, parse_json
from rmt.seal import load_record, unsealed
from rmt.train.names import short_name

HEADINGS = (
    "task",
    "segments",
    "model",
    "memory",
    "cache",
    "depth",
    "recipe",
    "ours",
    "original metric",
    "steps",
    "samples",
    "seconds",
    "paper",
)
TEXT_HEADINGS = (
    "data",
    "recipe",
    "model",
    "memory",
    "cache",
    "depth",
    "schedule",
    "test perplexity",
    "bits per token",
    "tokens seen",
    "steps",
    "seconds",
)
LABELS = 7  # columns of both tables that say what a row is of
INCIDENTAL = ("seed", "device", "compile", "threads")  # what runs of one setting may differ in


class Group(NamedTuple):
    """What the seeds of one setting share."""

    task: str
    segments: int
    model: str
    memory: int
    cache: int
    depth: str
    recipe: str
    settings: str  # the whole configuration but for what seeds and machines may differ in


def results_below(paths: Iterable[Path]) -> tuple[list[Result], list[RMTError]]:
    """Results from run folders, result.json files, and .jsonl files with a result per line; each file once.

    Those of cells are left out where they are not named themselves. With them, why others below a folder
    cannot be shown.
    """
    results: list[Result] = []
    errors: list[RMTError] = []
    seen: set[Path] = set()
    for path in paths:
        for file in sorted(path.rglob("result.json")) if path.is_dir() else [path]:
            if is_of_cell(file, path) or file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                results += results_in(file)
            except RMTError as error:
                if file == path:
                    raise
                errors.append(error)
    return results, errors


def is_of_cell(file: Path, path: Path) -> bool:
    """Whether a result below a path is of a cell there, whose record has it."""
    return path not in (file, file.parent) and (file.parent.parent / RECORD).exists()


def results_in(file: Path) -> Iterator[Result]:
    """The results in a file, but for those of cells."""
    records = lines_of(file) if file.suffix == ".jsonl" else [load_record(file, REMEDY)]
    return (shown_result(record, file) for record in records if not is_cell(record))


def is_cell(record: Any) -> bool:
    """Whether a record is of a cell of rmt reproduce, whose reports are others."""
    return isinstance(record, dict) and "cell" in record


def lines_of(file: Path) -> list[Any]:
    """The records of a .jsonl file."""
    try:
        records = [parse_json(line) for line in json_lines(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"results {str(file)!r} cannot be read ({reason}); {REMEDY}") from None
    return [unsealed(record, file, REMEDY) if isinstance(record, dict) else record for record in records]


def report(results: Iterable[Result]) -> str:
    """Tables of sequence tasks, of text and of documents, as far as there are results, in Markdown."""
    kinds: dict[str, list[Result]] = {"sequences": [], "text": [], "documents": []}
    for result in results:
        predicted = "perplexity" in result["metrics"]
        kinds["documents" if is_documents(result) else "text" if predicted else "sequences"].append(result)
    tables = [
        markdown(*with_differences(headings, make(kinds[kind])))
        for kind, headings, make in (("sequences", HEADINGS, table), ("text", TEXT_HEADINGS, text_table))
        if kinds[kind]
    ]
    tables += [markdown(*documents) for documents in document_tables(kinds["documents"])]
    return "\n\n".join(tables)


def markdown(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class TableRow(NamedTuple):
    """A setting as a line of a table."""

    texts: tuple[str, ...]
    settings: Mapping[str, Any]  # by their dotted names


def with_differences(
    headings: tuple[str, ...], rows: Sequence[TableRow]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and lines, and what tells apart rows that would look the same, where there are such."""
    alike: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        alike[row.texts[:LABELS]].append(row)
    if len(alike) == len(rows):
        return headings, [row.texts for row in rows]
    return (*headings, "besides"), [(*row.texts, besides(row, alike[row.texts[:LABELS]])) for row in rows]


def besides(row: TableRow, alike: Sequence[TableRow]) -> str:
    """The settings in which rows that look the same differ, as this one has them."""
    names = dict.fromkeys(name for other in alike for name in other.settings if name not in INCIDENTAL)
    columns = {name: spellings([other.settings.get(name) for other in alike]) for name in names}
    index = alike.index(row)
    return ", ".join(
        f"{short_name(name)} {values[index]}" for name, values in columns.items() if len(set(values)) > 1
    )


def table(results: Iterable[Result]) -> list[TableRow]:
    """A row per setting, means over seeds, in the order of the first result of each."""
    groups: dict[Group, list[Result]] = defaultdict(list)
    for result in results:
        groups[group_of(result)].append(result)
    return [TableRow(row(group, members), settings_in(members)) for group, members in groups.items()]


def text_table(results: Iterable[Result]) -> list[TableRow]:
    """As `table`, of language models."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[settings_of(result)].append(result)
    return [TableRow(text_row(members), settings_in(members)) for members in groups.values()]


def settings_in(results: Sequence[Result]) -> dict[str, Any]:
    """The settings that results of one setting share, by their dotted names."""
    return {**dotted(results[0]["config"]), "task_version": results[0].get("task_version", 1)}


def text_row(results: list[Result]) -> tuple[str, ...]:
    config = results[0]["config"]
    model, bptt = config["model"], config["bptt"]
    replayed = bptt["schedule"] == "sliding" and bptt["depth"] != 0
    return (
        Path(config["task"]["data"]).name,
        config["recipe"],
        config["preset"],
        str(model["memory"]["size"]),
        str(model["cache"]["size"]),
        str(bptt["depth"]),
        bptt["schedule"] + (f", {bptt['replay_from']}" if replayed else ""),
        spread([result["metrics"]["perplexity"] for result in results], seeds_of(results), ".2f"),
        spread([result["metrics"]["loss"] / math.log(2) for result in results], seeds_of(results)),
        whole([result["tokens"] for result in results]),
        whole([result["steps"] for result in results]),
        whole([result["seconds"] for result in results]),
    )


def settings_of(result: Result) -> str:
    """The whole configuration and the version of its data, but for what seeds and machines may differ in."""
    shared = {key: value for key, value in result["config"].items() if key not in INCIDENTAL}
    return json.dumps([shared, result.get("task_version", 1)], sort_keys=True)


def seeds_of(results: list[Result]) -> int:
    return len({result["seed"] for result in results})


def group_of(result: Result) -> Group:
    config = result["config"]
    task, length = config["task"], config["task"]["length"]
    model = config["model"]
    return Group(
        task["name"] + (f"-{length}" if length else ""),
        task["segments"],
        result["model"],
        model["memory"]["size"],
        model["cache"]["size"],
        str(config["bptt"]["depth"]),
        result["recipe"],
        settings_of(result),
    )


def row(group: Group, results: list[Result]) -> tuple[str, ...]:
    cell = PublishedCell(group.task, group.segments, group.model, group.memory or group.cache)
    config = results[0]["config"]
    comparable = group.depth == "full" and config["size"] == "paper" and not config["task"]["options"]
    return (
        group.task,
        str(group.segments),
        group.model,
        str(group.memory),
        str(group.cache),
        group.depth,
        group.recipe,
        spread([result["value"] for result in results], seeds_of(results)),
        original_metric(results),
        whole([result["steps"] for result in results]),
        whole([result["samples"] for result in results]),
        whole([result["seconds"] for result in results]),
        str(PUBLISHED[cell]) if comparable and cell in PUBLISHED else "–",
    )


def original_metric(results: list[Result]) -> str:
    """The mean of what the original code measures; a dash for tasks that it does not have."""
    values = [result["metrics"].get("original_accuracy") for result in results]
    return "–" if None in values else f"{statistics.mean(values):.4f}"


def spread(values: list[float], seeds: int, form: str = ".4f") -> str:
    """Mean and sample deviation over runs, of different seeds where it does not say otherwise."""
    if len(values) == 1:
        return f"{values[0]:{form}} (1 seed)"
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    count = f"{seeds} seed{'s' * (seeds > 1)}"
    count = count if seeds == len(values) else f"{len(values)} runs of {count}"
    return f"{mean:{form}} ± {deviation:{form}}, least {min(values):{form}} ({count})"


def whole(values: list[float]) -> str:
    """The median, and the range where the seeds differ."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.0f}" if least == most else f"{middle:,.0f} ({least:,.0f}–{most:,.0f})"
