"""The learning curves of run folders: what was logged, grouped by setting, named by what differs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from rmt.analysis.curves import CurveSheet, PlottedRun, Points, chart
from rmt.errors import ConfigError
from rmt.experiments.listed import ListedRun, by_setting, labels, spelled_of, telling
from rmt.experiments.spelling import ABSENT, spelled
from rmt.seal import NotWhole, load_record
from rmt.train.log import METRICS_FILE, MetricsLog
from rmt.train.names import short_name
from rmt.train.probe import MemoryProbe
from rmt.train.stored import TASK_FILE

LOSS = "training loss"
MOST_BORDERS = 4  # charts of one quantity: the first border, the last, and some between
USUAL = ("f1", "bits_per_character", "perplexity", "accuracy")  # the metric of a run that does not say which
# settings that say what runs are about, and how
TITLE = {
    "data": "{}",
    "backbone": "{}",
    "segments": "{} segments",
    "task.name": "{}",
    "task.data": "{}",
    "task.length": "length {}",
    "preset": "{}",
}
Series = Mapping[str, Points]  # by quantity


def curve_sheet(runs: Sequence[ListedRun], metric: str | None = None) -> CurveSheet:
    """The curves of some runs: the loss in training, and a metric on the validation set.

    Without `metric`, each run has its task's own.
    """
    logged = [(run, series_of(run, metric)) for run in runs]
    started = [(run, series) for run, series in logged if series]
    require_curves(started, runs, metric)
    groups = by_setting([run for run, _ in started])
    names = telling([run for run, _ in started])
    named = zip(groups, group_labels(groups, names), strict=True)
    group_names = {run.folder: name for group, name in named for run in group}
    quantities: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    for run, series in started:
        for quantity, points in series.items():
            quantities[quantity][group_names[run.folder]].append(points)
    return CurveSheet(
        title([run for run, _ in started], names),
        note(groups),
        [chart(quantity, by_label) for quantity, by_label in quantities.items()],
        [plotted(run, group_names[run.folder]) for run, _ in started],
    )


def require_curves(started: Sequence[Any], runs: Sequence[ListedRun], metric: str | None) -> None:
    """Raise where there is nothing to draw."""
    if not runs:
        raise ConfigError("there is no run here; name a run folder or a folder of runs, or train one first")
    if not started:
        raise ConfigError(
            f"{str(runs[0].folder)!r} has logged nothing yet: its {METRICS_FILE} has no line with a loss; "
            "train it further"
        )
    if metric and not any(series.keys() - {LOSS} for _, series in started):
        names = sorted({name for run, _ in started for name in measured(MetricsLog(run.folder).records())})
        raise ConfigError(f"metric={metric!r} was not measured; choose from: {', '.join(names)}")


def series_of(run: ListedRun, metric: str | None) -> Series:
    """What a run has logged, by quantity; nothing before its first line."""
    lines = MetricsLog(run.folder).records()
    losses = points(lines, "loss", "")
    drawn = {LOSS: losses} if losses else {}
    if metric in MemoryProbe._fields:
        return {**drawn, **by_border(lines, metric)}
    chosen = metric or metric_of(run, evaluated(lines))
    values = points(lines, chosen, "valid")
    return {**drawn, **({f"validation {chosen}": values} if values else {})}


def by_border(lines: Sequence[dict[str, Any]], name: str) -> Series:
    """What a probe of memory has measured, at no more borders than can be looked at together."""
    probes = [line for line in lines if isinstance(line.get(name), list)]
    count = min((len(line[name]) for line in probes), default=0)
    shown = sorted({round(number * (count - 1) / (MOST_BORDERS - 1)) for number in range(MOST_BORDERS)})
    return {
        f"{name}, border {border + 1}": points(
            [{**line, name: line[name][border]} for line in probes], name, ""
        )
        for border in shown
        if count
    }


def measured(lines: Sequence[dict[str, Any]]) -> list[str]:
    """What can be drawn: of the validation set, and of memory."""
    return [*evaluated(lines), *(name for name in MemoryProbe._fields if any(name in line for line in lines))]


def points(lines: Sequence[dict[str, Any]], name: str, split: str) -> list[tuple[float, float]]:
    """Step and value of a quantity, of the lines in training or of those of a split."""
    pairs = ((line.get("step"), line.get(name)) for line in lines if line.get("split", "") == split)
    return [(float(step), float(value)) for step, value in pairs if is_finite(step) and is_finite(value)]


def is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def evaluated(lines: Sequence[dict[str, Any]]) -> list[str]:
    """What was measured on the validation set."""
    names = (name for line in lines if line.get("split") == "valid" for name in line)
    return [name for name in dict.fromkeys(names) if name not in ("step", "split", "samples", "tokens")]


def metric_of(run: ListedRun, measured: Sequence[str]) -> str:
    """The metric that a run is judged by; where it does not say, the first usual one that was measured."""
    try:
        described = load_record(run.folder / TASK_FILE, "").get("metric")
    except NotWhole:  # a run of an earlier release, or of documents, has none
        described = None
    name = run.result.get("metric") or described
    return str(name or next((usual for usual in USUAL if usual in measured), "loss"))


def group_labels(groups: Sequence[Sequence[ListedRun]], names: Sequence[str]) -> list[str]:
    """What curves are called: what is special about their settings, and how many seeds they have."""
    firsts = [group[0] for group in groups]
    texts = labels(firsts, names or [model_name(firsts[0])])
    return [f"{text}{counted(group)}" for text, group in zip(texts, groups, strict=True)]


def counted(group: Sequence[ListedRun]) -> str:
    """How many runs are behind a curve, if they are several."""
    if len(group) == 1:
        return ""
    seeds = {run.value("seed") for run in group}
    return f" ({len(group)} {'seeds' if len(seeds) == len(group) else 'runs'})"


def model_name(run: ListedRun) -> str:
    return "backbone" if run.is_finetuned else "preset"


def title(runs: Sequence[ListedRun], names: Sequence[str]) -> str:
    """What the runs share, and what they differ in."""
    shared = [
        words.format(*values)
        for name, words in TITLE.items()
        if name not in names and len(values := set(spelled_of(runs, name))) == 1
        if values != {ABSENT}
    ]
    differences = ", ".join(dict.fromkeys(map(short_name, names)))
    return f"{', '.join(shared) or 'runs'}{f': by {differences}' if differences else ''}"


def note(groups: Sequence[Sequence[ListedRun]]) -> str:
    """What line and band are."""
    if all(len(group) == 1 for group in groups):
        return "Each line is one run."
    return (
        "A line is the mean over the seeds that are still in training, "
        "its band reaches from the least to the most of them."
    )


def plotted(run: ListedRun, setting: str) -> PlottedRun:
    """A run as a line of the table."""
    value = run.result.get("value")
    result = "" if value is None else f"{run.result['metric']} {value:.4f}"
    return PlottedRun(run.folder, setting, spelled(run.value("seed")), run.steps, result, run.explorer)
