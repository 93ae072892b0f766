"""`rmt bench [NAME …]`: how fast training is on this machine, as written and on the fast path."""

from __future__ import annotations

import importlib.util
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rmt.bench.configurations import CONFIGURATIONS, PAPER, SMALL
from rmt.cli import task_options
from rmt.cli.front import Command, Invocation, Options
from rmt.cli.training import ALIASES, VARYING
from rmt.config import at_least, option
from rmt.errors import ConfigError, unknown
from rmt.train.config import RunConfig
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt bench                                  the paper's configurations on a GPU, small ones on a CPU
  rmt bench copy-24-9x8 --paths fast         one of them, on the fast path only
  rmt bench enwik8-rotary --batch 128        the same with other settings, as in rmt train
  rmt bench copy --segments 6 --size paper   a task of yours, with the options of rmt train
  rmt bench --config run.yaml                a configuration of yours
  rmt bench enwik8-rotary --growth           time and memory over the number of segments
  rmt bench --list                           the names"""
SEGMENTS = (1, 2, 4, 8, 16)  # of an update, where its growth is measured
UPDATES = {"cuda": 50, "cpu": 10}  # timed; a CPU takes a second or so for each
TOKENS = {"cuda": 2_400_000, "cpu": 400_000}  # of made text: a pass is longer than the measurement


class Subject(NamedTuple):
    """What is measured."""

    name: str
    config: Any
    task: Any


@dataclass(frozen=True, kw_only=True)
class BenchOptions(Options):
    """The options of `rmt bench`."""

    names: tuple[str, ...] = option((), "a name of --list, or a task as in rmt train", argument="NAME")
    list: bool = option(False, "print the names and exit")
    updates: int | None = option(None, "timed updates; none = 50, on a CPU 10", at_least(1))
    paths: Literal["both", "eager", "fast"] = option(
        "both", "as written and on the fast path that --compile names, or one of them"
    )
    seeds: int = option(0, "also so many seeds trained at once", at_least(0))
    growth: tuple[int, ...] = option(
        (),
        "text: a step over these numbers of segments, with and without recomputing; alone = 1,2,4,8,16",
        at_least(1),
        bare=SEGMENTS,
    )
    out: str = option("benchmarks", "folder of the dated page")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.growth and self.seeds:
            raise ConfigError(f"seeds={self.seeds} is not measured with --growth; leave one out")

    @property
    def counts(self) -> Sequence[int]:
        """Rising numbers of segments."""
        return sorted(set(self.growth))


COMMAND = Command(
    "bench",
    "Measure training steps: time, tokens per second, memory, utilisation, kernels.",
    EXAMPLES,
    BenchOptions,
    settings=RunConfig,
    aliases=ALIASES,
    varying=VARYING,
    appendix=task_options.section,
    unpack=settings_in,
)


def main(argv: Sequence[str]) -> int:
    invocation = COMMAND.collect(argv)
    if invocation is None or invocation.printed():
        return 0
    options = invocation.options
    if options.list:
        width = max(map(len, CONFIGURATIONS))
        print("\n".join(f"{name:{width}}  {known.about}" for name, known in CONFIGURATIONS.items()))
        return 0
    from rmt.train.device import device_of

    device = device_of(invocation.settings.get("device", "auto"))
    ways = ways_of(options, invocation.settings.get("compile", "auto"), device)
    names, title = chosen(invocation, device)
    if options.growth and len(names) != 1:
        raise ConfigError(f"growth is measured of one configuration, not of {len(names)}; give one NAME")
    updates = options.updates or UPDATES[device]
    with tempfile.TemporaryDirectory() as folder:
        subjects = [subject(name, invocation.settings, device, Path(folder)) for name in names]
        page = page_of(options, shlex.join(["rmt", "bench", *argv]), title, subjects, device)
        if options.growth:
            return measure_growth(page, subjects[0], options.counts, ways, updates)
        return measure_rows(page, subjects, ways, updates, options.seeds)


def ways_of(options: BenchOptions, fast: str, device: str) -> Sequence[Any]:
    """The values of `compile` that are measured: `off` is as written, `fast` the other one."""
    if options.paths == "fast" and device == "cpu":
        raise ConfigError("paths=fast has no effect on a CPU; leave it out, or use a GPU")
    if options.paths == "fast" and fast == "off":
        raise ConfigError("paths=fast does not go with compile=off; leave one out")
    if device == "cpu" or fast == "off" or options.paths == "eager":
        return ["off"]
    return [fast] if options.paths == "fast" else ["off", fast]


def chosen(invocation: Invocation[BenchOptions], device: str) -> tuple[Sequence[str], str]:
    """What to measure, and what the page is called."""
    from rmt.tasks.registry import task_names

    names, task = invocation.options.names, invocation.settings.get("task", {}).get("name")
    known = [*CONFIGURATIONS, "text", *task_names()]
    for name in names:
        if name not in known and ":" not in name:
            raise unknown("configuration", name, known)
    if names and task is not None and names != (task,):
        raise ConfigError(f"task.name={task} does not go with NAME {' '.join(names)}; leave one out")
    if names:
        return names, "-".join(names).replace(":", ".")
    if task is not None:
        return [task], Path(invocation.config).stem if invocation.config else task.replace(":", ".")
    return (list(PAPER), "paper") if device == "cuda" else (list(SMALL), "small")


def subject(name: str, settings: dict[str, Any], device: str, folder: Path) -> Subject:
    """The configuration of a name, the user's settings over its own; text that nobody named is made."""
    from rmt.bench.text import made_text
    from rmt.experiments.recipe import merge, resolve
    from rmt.precision import precision_of
    from rmt.train.config import build_task

    base: dict[str, Any] = {}
    symbols = CONFIGURATIONS[name].symbols if name in CONFIGURATIONS else 0
    task = CONFIGURATIONS[name].settings if name in CONFIGURATIONS else {"task": {"name": name}}
    if symbols and "data" not in settings.get("task", {}):
        base["task"] = {"data": made_text(symbols, folder, TOKENS[device])}
    config = resolve(merge(base, task, settings, {"device": device}))
    config = replace(config, precision=precision_of(config.precision, device))
    return Subject(name, config, build_task(config.task))


def page_of(options: BenchOptions, call: str, title: str, subjects: list[Subject], device: str) -> Any:
    import torch

    from rmt.bench.report import Page, describe
    from rmt.train.log import environment

    notes = [
        describe(
            measured.name, measured.config, measured.task.tokens_per_segment(measured.config.task.segments)
        )
        for measured in subjects
    ]
    name = f"growth-{title}" if options.growth else title
    return Page(Path(options.out), name, call, environment(torch.device(device)), notes)


def measure_rows(page: Any, subjects: list[Subject], ways: Sequence[Any], updates: int, seeds: int) -> int:
    """Every configuration in turn; the page is written anew after each row."""
    from rmt.bench.measure import Row, bench
    from rmt.bench.report import cells, draw_rows, write_rows

    def measured() -> Iterator[Row]:
        for each in subjects:
            yield from bench(each.name, each.config, each.task, list(ways), updates, seeds)

    rows: list[Row] = []
    for row in measured():
        rows.append(row)
        name, way, median, _, speed, peak, *_, used, kernels = cells(row)
        print(
            f"{name}  {way}  {median} ms per step  {speed} tokens/s  {peak} GiB  {used} of a product's speed"
            + (f"  {kernels} kernels" if row.kernels is not None else ""),
            flush=True,
        )
        write_rows(page, rows)
    return finished(page, lambda path: draw_rows(rows, path))


def measure_growth(page: Any, text: Subject, counts: Sequence[int], ways: Sequence[Any], updates: int) -> int:
    """Every number of segments in turn; the page is written anew after each."""
    from rmt.bench.growth import Point, border_bytes, growth
    from rmt.bench.report import draw_growth, growth_cells, write_growth

    border, points = border_bytes(text.config), list[Point]()
    for point in growth(text.name, text.config, text.task, list(counts), list(ways), updates):
        points.append(point)
        way, segments, _, median, *_, peak = growth_cells(point)
        label = f"{way}, recomputed" if point.recomputed else way
        print(f"segments {segments}  {label}  {median} ms per step  {peak} GiB", flush=True)
        write_growth(page, points, border)
    return finished(page, lambda path: draw_growth(points, path))


def finished(page: Any, draw: Callable[[Path], None]) -> int:
    """Draw the picture, if that is possible here, and say where everything is."""
    print(f"written: {page.path('md')}")
    if importlib.util.find_spec("matplotlib"):
        draw(page.path("png"))
        print(f"drawn: {page.path('png')}")
    else:
        print("not drawn: matplotlib is not installed (extra viz)")
    return 0
