"""What a report calls its rows: the model, what it carries, how it was trained."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence

from rmt.experiments.comparison import ComparedRow
from rmt.experiments.paper import PublishedRow

NAMES = {
    "rmt": "RMT",
    "transformer_xl": "Transformer-XL",
    "memory_transformer": "Memory Transformer",
    "baseline": "baseline",
    "transformer_xl_rmt": "Transformer-XL + RMT",
}
DASH = "–"
AVERAGED = "mean of answers"  # of segments that know nothing of each other
EDGE = "‡"  # of a rate: the largest or the smallest that was tried
HUES = 5  # that other models share
Row = ComparedRow | PublishedRow


def hues(models: Iterable[str]) -> dict[str, str]:
    """The class of each model's colour: its own, or in turn one of those that other models share."""
    others = [model for model in dict.fromkeys(models) if model not in NAMES]
    return {model: model for model in NAMES} | {
        model: f"hue-{number % HUES}" for number, model in enumerate(others)
    }


def model_name(row: Row) -> str:
    return NAMES.get(row.model, row.model)


def carried(row: Row) -> str:
    """Memory and cache, as far as there are any."""
    sizes = (("memory", row.memory), ("cache", row.cache))
    return " + ".join(f"{name} {size}" for name, size in sizes if size) or averaged(row) or DASH


def averaged(row: Row) -> str:
    return AVERAGED if isinstance(row, ComparedRow) and row.averages else ""


def depth(row: ComparedRow) -> str:
    if not row.has_depth:
        return ""
    return "full depth" if row.depth == "full" else f"depth {row.depth}"


def published_depth(row: PublishedRow) -> str:
    if row.model not in ("rmt", "transformer_xl_rmt"):
        return ""
    return "full depth" if row.depth == "full" else f"depth {row.depth}"


def replay(row: ComparedRow) -> str:
    """Whose outputs a window of earlier segments starts from, where windows are replayed."""
    bptt = row.settings("bptt")
    if not row.has_depth or row.depth == "0" or bptt.get("schedule") != "sliding":
        return ""
    return f"replay {bptt['replay_from']}"


def memory_loss(row: ComparedRow) -> str:
    weight = row.settings("train").get("memory_loss", 0.0)
    return f"memory loss {weight:g}" if weight else ""


def rate(row: ComparedRow) -> str:
    """The rate that was chosen, marked at an edge of those tried."""
    return f"rate {row.record['rate']:g}{EDGE * bool(row.edge)}" if row.record["rate"] else ""


def how(row: ComparedRow) -> str:
    """Depth, replay, memory loss, rate."""
    return ", ".join(filter(None, (depth(row), replay(row), memory_loss(row), rate(row))))


def position_name(row: Row) -> str:
    """Where models are compared: a task in its segments, or a text."""
    length = row.segment_length if isinstance(row, PublishedRow) else row.length
    if not row.segments:
        return f"{row.task}, segments of {length}"
    return f"{row.task} in {row.segments} segment{'s' * (row.segments > 1)} of {length}"


def title(row: ComparedRow) -> str:
    """A row by itself."""
    return f"{position_name(row)}: {name_at_position(row)}"


def name_at_position(row: ComparedRow) -> str:
    """A row among those of its place: model, what it carries, and what is not usual of it."""
    size = carried(row).replace(DASH, "")
    unusual = depth(row).replace("full depth", "")
    recipe = "recipe paper" if row.recipe == "paper" else ""
    parts = filter(None, (model_name(row), size, unusual, replay(row), memory_loss(row), recipe))
    return ", ".join(parts)


def traits(row: ComparedRow) -> dict[str, str]:
    """What rows of one model may differ in."""
    return {
        "memory": f"memory {row.memory}" if row.memory else "",
        "cache": f"cache {row.cache}" if row.cache else "",
        "answer": averaged(row),
        "depth": depth(row),
        "replay": replay(row),
        "memory loss": memory_loss(row),
        "recipe": f"recipe {row.recipe}",
        "updates": f"{row.updates:,} updates",
    }


def labels(
    rows: Sequence[ComparedRow], always: Container[str] = (), never: Container[str] = ()
) -> dict[str, str]:
    """A name for each row of a chart, by its cell: the model, and what rows of this model differ in."""
    models: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        models[row.model].append(traits(row))
    names = {row.name: label(row, models[row.model], always, never) for row in rows}
    return names if never else distinct(names)


def label(
    row: ComparedRow, alike: Sequence[dict[str, str]], always: Container[str], never: Container[str]
) -> str:
    parts = [
        text
        for name, text in traits(row).items()
        if text and name not in never and (name in always or differs(name, alike))
    ]
    return ", ".join([model_name(row), *parts])


def differs(name: str, alike: Iterable[dict[str, str]]) -> bool:
    """Whether rows differ in a trait; a replay is none where the depth is 0."""
    return len({row[name] for row in alike if row[name] or name != "replay"}) > 1


def distinct(names: dict[str, str]) -> dict[str, str]:
    """Labels of which no two are the same; what is alike in all that it shows has its cell's name."""
    counts = Counter(names.values())
    return {cell: text if counts[text] == 1 else f"{text} ({cell})" for cell, text in names.items()}
