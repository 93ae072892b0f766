"""`rmt bench [NAME …]`: how fast training is on this machine, as written and on the fast path."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.bench.configurations import CONFIGURATIONS, PAPER, SMALL
from rmt.cli.arguments import Parser, add_config_arguments, one_of, settings
from rmt.config import to_dict, write_yaml
from rmt.errors import ConfigError, unknown

EXAMPLES = """examples:
  rmt bench                                  the paper's configurations on a GPU, small ones on a CPU
  rmt bench copy-24-9x8 --compile auto       one of them, on the fast path only
  rmt bench enwik8-rotary --batch 128        the same with other settings, as in rmt train
  rmt bench copy --segments 6 --size paper   a task of yours, with the options of rmt train
  rmt bench --config run.yaml                a configuration of yours
  rmt bench enwik8-rotary --growth           time and memory over the number of segments
  rmt bench --list                           the names"""
SEGMENTS = "1,2,4,8,16"
STEPS = {"cuda": 50, "cpu": 10}
TOKENS = {"cuda": 2_400_000, "cpu": 400_000}  # of made text: a pass is longer than the measurement


class Subject(NamedTuple):
    """What is measured."""

    name: str
    config: Any
    task: Any


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="rmt bench",
        usage="rmt bench [NAME ...] [OPTIONS]",
        description="Measure training steps: time, tokens per second, memory, utilisation, kernels.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        conflict_handler="resolve",  # --steps and --compile mean something else than in rmt train
    )
    made.add_argument("names", metavar="NAME", nargs="*", help="a name of --list, or a task as in rmt train")
    add_config_arguments(made)
    own = made.add_argument_group("measurement")
    own.add_argument("--list", action="store_true", help="print the names and exit")
    own.add_argument(
        "--steps", dest="timed", metavar="N", type=int, help="timed updates (default: 50, on a CPU 10)"
    )
    own.add_argument(
        "--compile",
        dest="ways",
        metavar="both|auto|record|off",
        default="both",
        help="eager and fast (the default), or one: compiled and recorded, only recorded, as written",
    )
    own.add_argument("--seeds", metavar="K", type=int, default=0, help="also K seeds trained at once")
    own.add_argument(
        "--growth",
        metavar="COUNTS",
        nargs="?",
        const=SEGMENTS,
        help=f"text: a step over these numbers of segments, with and without recomputing ({SEGMENTS})",
    )
    own.add_argument("--out", metavar="DIR", default="benchmarks", help="folder of the dated page")
    return made


def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    if arguments.list:
        width = max(map(len, CONFIGURATIONS))
        print("\n".join(f"{name:{width}}  {one.about}" for name, one in CONFIGURATIONS.items()))
        return 0
    one_of(arguments.ways, ["both", "auto", "record", "off"], "compile")
    if arguments.seeds < 0:
        raise ConfigError(f"seeds={arguments.seeds} must not be negative")
    counts = numbers(arguments.growth) if arguments.growth else []
    if arguments.timed is not None and arguments.timed < 1:
        raise ConfigError(f"steps={arguments.timed} must be at least 1")
    given = settings(arguments)
    from rmt.train.device import device_of

    device = device_of(given.get("device", "auto"))
    if arguments.ways in ("auto", "record") and device == "cpu":
        raise ConfigError(f"compile={arguments.ways} has no effect on a CPU; leave it out, or use a GPU")
    ways: list[Any] = ["off", "auto"] if arguments.ways == "both" else [arguments.ways]
    if device == "cpu":
        ways = ["off"]
    names, title = chosen(arguments, given, device)
    if counts and arguments.seeds:
        raise ConfigError(f"seeds={arguments.seeds} is not measured with --growth; leave one out")
    if counts and len(names) != 1:
        raise ConfigError(f"growth is measured of one configuration, not of {len(names)}; give one NAME")
    with tempfile.TemporaryDirectory() as folder:
        subjects = [subject(name, given, device, Path(folder)) for name in names]
        if arguments.print_config:
            print("---\n".join(write_yaml(to_dict(one.config)) for one in subjects), end="")
            return 0
        page = page_of(arguments, argv, title, subjects, device)
        steps = arguments.timed or STEPS[device]
        if counts:
            return measure_growth(page, subjects[0], counts, ways, steps)
        return measure_rows(page, subjects, ways, steps, arguments.seeds)


def numbers(text: str) -> list[int]:
    """Rising numbers of segments."""
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ConfigError(f"growth={text!r} must be numbers of segments, such as {SEGMENTS}")
    return sorted(set(map(int, parts)))


def chosen(arguments: argparse.Namespace, given: dict[str, Any], device: str) -> tuple[list[str], str]:
    """What to measure, and what the page is called."""
    from rmt.tasks.registry import task_names

    for name in arguments.names:
        known = [*CONFIGURATIONS, "text", *task_names()]
        if name not in known and ":" not in name:
            raise unknown("configuration", name, known)
    if arguments.names:
        return arguments.names, "-".join(arguments.names).replace(":", ".")
    if arguments.config and "name" in given.get("task", {}):
        return [given["task"]["name"]], Path(arguments.config).stem
    return (list(PAPER), "paper") if device == "cuda" else (list(SMALL), "small")


def subject(name: str, given: dict[str, Any], device: str, folder: Path) -> Subject:
    """The configuration of a name, the user's settings over its own; text that nobody named is made."""
    from rmt.bench.text import made_text
    from rmt.experiments.recipe import merge, resolve
    from rmt.train.config import build_task

    own: dict[str, Any] = {"precision": "bf16-mixed"} if device == "cuda" else {}
    symbols = CONFIGURATIONS[name].symbols if name in CONFIGURATIONS else 0
    task = CONFIGURATIONS[name].settings if name in CONFIGURATIONS else {"task": {"name": name}}
    if symbols and "data" not in given.get("task", {}):
        own["task"] = {"data": made_text(symbols, folder, TOKENS[device])}
    config = resolve(merge(own, task, given, {"device": device}))
    return Subject(name, config, build_task(config.task))


def page_of(
    arguments: argparse.Namespace, argv: Sequence[str], title: str, subjects: list[Subject], device: str
) -> Any:
    import torch

    from rmt.bench.report import Page, describe
    from rmt.train.log import environment

    notes = [
        describe(one.name, one.config, one.task.tokens_per_segment(one.config.task.segments))
        for one in subjects
    ]
    said = environment(torch.device(device))
    name = f"growth-{title}" if arguments.growth else title
    return Page(Path(arguments.out), name, shlex.join(["rmt", "bench", *argv]), said, notes)


def measure_rows(page: Any, subjects: list[Subject], ways: list[Any], steps: int, seeds: int) -> int:
    """Every configuration in turn; the page is written anew after each row."""
    from rmt.bench.measure import Row, bench
    from rmt.bench.report import cells, draw_rows, write_rows

    def measured() -> Iterator[Row]:
        for one in subjects:
            yield from bench(one.name, one.config, one.task, ways, steps, seeds)

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


def measure_growth(page: Any, one: Subject, counts: list[int], ways: list[Any], steps: int) -> int:
    """Every number of segments in turn; the page is written anew after each."""
    from rmt.bench.growth import Point, border_bytes, growth
    from rmt.bench.report import draw_growth, growth_cells, write_growth

    border, points = border_bytes(one.config), list[Point]()
    for point in growth(one.name, one.config, one.task, counts, ways, steps):
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
