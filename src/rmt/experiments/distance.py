"""How far back a task asks, from the first token of the segment that has to answer, as reach is counted."""

from __future__ import annotations

from typing import Any

from rmt.train.config import TaskConfig, build_task


def asked(task: str, total: int, length: int, source: int) -> dict[int, int]:
    """The farthest token that each answering segment needs, at its nearest occurrence, by segment."""
    needed = NEAREST.get(task)
    if needed is None:
        return {}
    distances: dict[int, int] = {}
    for position in range(total - answer_length(task, source), total):
        segment = position // length
        distance = segment * length - needed(position, source)
        distances[segment] = max(distances.get(segment, 0), distance)
    return {segment: max(0, distance) for segment, distance in distances.items()}


def answer_length(task: str, source: int) -> int:
    return {"copy": 2 * source, "reverse": source, "retrieval": 1}[task]


def copied(position: int, source: int) -> int:
    """Where the symbol to predict at a position stands nearest: in the source, then in the first copy."""
    index = (position - source) % source
    return index if position < 2 * source else source + 1 + index


def reversed_symbol(position: int, source: int) -> int:
    return 2 * source - 1 - position


NEAREST = {"copy": copied, "reverse": reversed_symbol, "retrieval": lambda position, source: 0}


def distances_of(config: dict[str, Any]) -> dict[int, int]:
    """What `asked` says of a run's configuration; nothing for a task that it does not know."""
    settings = config["task"]
    if settings["name"] not in NEAREST:
        return {}
    task = build_task(TaskConfig(name=settings["name"], length=settings["length"]))
    length = task.tokens_per_segment(settings["segments"])
    return asked(task.name, task.total_length, length, getattr(task, "length", 0))
