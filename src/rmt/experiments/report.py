"""Results of many runs as one table, the paper's numbers beside ours."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import ConfigError
from rmt.experiments.paper import PUBLISHED, Cell

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
INCIDENTAL = ("seed", "device", "compile", "threads")  # what runs of one setting may differ in
Result = dict[str, Any]


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


def read_results(paths: Iterable[Path]) -> list[Result]:
    """Results from run folders, result.json files, and .jsonl files with a result per line."""
    results = []
    for path in paths:
        files = sorted(path.rglob("result.json")) if path.is_dir() else [path]
        for file in files:
            try:
                text = file.read_text()
                results += (
                    [json.loads(line) for line in text.splitlines()]
                    if file.suffix == ".jsonl"
                    else [json.loads(text)]
                )
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"results {str(file)!r} cannot be read ({error}); name run folders or .jsonl files"
                ) from None
            if not all(
                isinstance(one, dict) and {"config", "metrics", "value"} <= one.keys() for one in results
            ):
                raise ConfigError(f"{str(file)!r} holds no results of rmt; name run folders or .jsonl files")
    return results


def table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """A row per setting, means over seeds, in the order of the first result of each."""
    groups: dict[Group, list[Result]] = defaultdict(list)
    for result in results:
        groups[group_of(result)].append(result)
    return [row(group, members) for group, members in groups.items()]


def markdown(rows: Iterable[tuple[str, ...]]) -> str:
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


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
        json.dumps({key: value for key, value in config.items() if key not in INCIDENTAL}, sort_keys=True),
    )


def row(group: Group, results: list[Result]) -> tuple[str, ...]:
    cell = Cell(group.task, group.segments, group.model, group.memory or group.cache)
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
        spread([result["value"] for result in results], len({result["seed"] for result in results})),
        f"{statistics.mean(result['metrics']['original_accuracy'] for result in results):.4f}",
        whole([result["steps"] for result in results]),
        whole([result["samples"] for result in results]),
        whole([result["seconds"] for result in results]),
        str(PUBLISHED[cell]) if comparable and cell in PUBLISHED else "–",
    )


def spread(values: list[float], seeds: int) -> str:
    """Mean and sample deviation over runs of different seeds, or the one value."""
    if len(values) == 1:
        return f"{values[0]:.4f} (1 seed)"
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    return f"{mean:.4f} ± {deviation:.4f}, least {min(values):.4f} ({seeds} seeds)"


def whole(values: list[float]) -> str:
    """The median, and the range where the seeds differ."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:,.0f}" if least == most else f"{middle:,.0f} ({least:,.0f}–{most:,.0f})"
