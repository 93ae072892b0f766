"""`rmt bench [NAME …]`: how fast training is on this machine, as written and on the fast path."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rmt.bench.configurations import CONFIGURATIONS, KINDS, PAPER, SMALL
from rmt.cli import task_options
from rmt.cli.bench_kinds import Conditions, notes_about, refuse_settings, rows_of
from rmt.cli.bench_pages import measure_growth, measure_rows
from rmt.cli.bench_tune import tune
from rmt.cli.front import Command, Invocation, TrustOptions
from rmt.cli.training import VARYING, refuse_settings_of_another, require_trusted_classes
from rmt.config import at_least, leaves, option
from rmt.errors import ConfigError, unknown
from rmt.location import trusting
from rmt.train.config import RunConfig
from rmt.train.names import ALIASES
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt bench                                  the paper's configurations on a GPU, small ones on a CPU
  rmt bench copy-24-9x8 --paths fast         one of them, on the fast path only
  rmt bench enwik8-rotary --batch 128        the same with other settings, as in rmt train
  rmt bench copy --segments 6 --size paper   a task of yours, with the options of rmt train
  rmt bench --config run.yaml                a configuration of yours
  rmt bench enwik8-rotary --growth           time and memory over the number of segments
  rmt bench enwik8-relative enwik8-relative-xl --paths fast   one beside the other: time and operations
  rmt bench stream start                     sessions; commands from their start to the first update
  rmt bench --tune                           the best tiles for this GPU, kept for later runs
  rmt bench --list                           the names"""
OF_UPDATES = {"growth", "seeds", "updates", "paths", "out"}  # options of what is written on a page
SEGMENTS = (1, 2, 4, 8, 16)  # of an update, where its growth is measured
UPDATES = {"cuda": 50, "cpu": 10}  # timed; a CPU takes a second or so for each
TOKENS = {"cuda": 2_400_000, "cpu": 400_000}  # of made text: a pass is longer than the measurement


class Subject(NamedTuple):
    """What is measured."""

    name: str
    config: Any
    task: Any


@dataclass(frozen=True, kw_only=True)
class BenchOptions(TrustOptions):
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
    tune: bool = option(
        False, "measure tiles of the GPU's kernels (NAME: some of them) and keep the best for this card"
    )
    out: str = option("benchmarks", "folder of the dated page")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.growth and self.seeds:
            raise ConfigError(f"seeds={self.seeds} is not measured with --growth; leave one out")
        for leaf in leaves(BenchOptions) if self.tune else ():
            if leaf.name in OF_UPDATES and getattr(self, leaf.name) != leaf.default:
                raise ConfigError(
                    f"{leaf.name}={getattr(self, leaf.name)} has no effect with --tune; leave it out"
                )

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
        print(listed())
        return 0
    if options.tune:
        return tune(options.names, invocation.settings)
    with trusting(options.trust):
        require_trusted_classes(invocation)
    refuse_settings(options.names, invocation.settings, without_effect_on_kinds(options))
    refuse_settings_of_another(invocation)
    from rmt.train.device import device_of

    device = device_of(invocation.settings.get("device", "auto"))
    if device not in UPDATES:
        raise ConfigError(f"device={device} is not measured; use {' or '.join(UPDATES)}")
    with tempfile.TemporaryDirectory() as folder:
        conditions = Conditions(device, options.updates or UPDATES[device], Path(folder))
        return measure(invocation, conditions, shlex.join(["rmt", "bench", *argv]))


def measure(invocation: Invocation[BenchOptions], conditions: Conditions, call: str) -> int:
    """Measure what was named, and write the page."""
    options, device, updates = invocation.options, conditions.device, conditions.updates
    ways = ways_of(options, invocation.settings.get("compile", "auto"), device)
    names, title = chosen(invocation, device)
    if options.growth:
        refuse_growth(names)
    subjects = {
        name: subject(name, invocation.settings, device, conditions.folder)
        for name in names
        if name not in KINDS
    }
    page = page_of(options, call, title, subjects, device)
    if options.growth:
        return measure_growth(page, subjects[names[0]], options.counts, ways, updates)

    def rows() -> Iterator[Any]:
        for name in names:
            if name in KINDS:
                yield from rows_of(name, conditions)
            else:
                yield from subject_rows(subjects[name], ways, updates, options.seeds)

    return measure_rows(page, rows())


def refuse_growth(names: Sequence[str]) -> None:
    """Raise unless one configuration is named."""
    if len(names) != 1:
        raise ConfigError(f"growth is measured of one configuration, not of {len(names)}; give one NAME")
    if names[0] in KINDS:
        raise ConfigError(f"growth is not measured of {names[0]}; name a configuration of text")


def without_effect_on_kinds(options: BenchOptions) -> dict[str, Any]:
    """The options that were set and mean nothing where only kinds are measured."""
    is_set = {"seeds": options.seeds > 0, "paths": options.paths != "both"}
    is_set["updates"] = options.updates is not None and set(options.names) == {"start"}
    return {name: getattr(options, name) for name, value in is_set.items() if value}


def listed() -> str:
    """All names, and what they stand for."""
    abouts = {name: known.about for name, known in CONFIGURATIONS.items()} | KINDS
    width = max(map(len, abouts))
    return "\n".join(f"{name:{width}}  {about}" for name, about in abouts.items())


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
    known = [*CONFIGURATIONS, *KINDS, *task_names()]
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


def page_of(
    options: BenchOptions, call: str, title: str, subjects: Mapping[str, Subject], device: str
) -> Any:
    import torch

    from rmt.bench.report import Page, describe
    from rmt.config import to_dict
    from rmt.train.log import environment

    notes = [
        describe(
            measured.name, measured.config, measured.task.tokens_per_segment(measured.config.task.segments)
        )
        for measured in subjects.values()
    ]
    notes += [note for name in options.names if name in KINDS for note in notes_about(name, device)]
    name = f"growth-{title}" if options.growth else title
    configs = {measured.name: to_dict(measured.config) for measured in subjects.values()}
    return Page(Path(options.out), name, call, environment(torch.device(device)), notes, configs)


def subject_rows(measured: Subject, ways: Sequence[Any], updates: int, seeds: int) -> Iterator[Any]:
    """The rows of a configuration, each with the name of what it is compared with."""
    from rmt.bench.measure import bench

    beside = CONFIGURATIONS[measured.name].beside if measured.name in CONFIGURATIONS else ""
    for row in bench(measured.name, measured.config, measured.task, list(ways), updates, seeds):
        yield row._replace(beside=(beside,) if beside else ())
