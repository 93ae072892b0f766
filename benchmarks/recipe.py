"""Does one recipe learn everything? Every row of results/recipe-2.md by `rmt train` with its defaults.

    python benchmarks/recipe.py --jobs 8                     all rows, the paper's sizes, on a GPU
    python benchmarks/recipe.py copy-24 retrieval --jobs 8   those whose names begin so
    python benchmarks/recipe.py --jobs 8 --data enwik8       language models, too, of this text
    python benchmarks/recipe.py small                        the small size, on a CPU
    python benchmarks/recipe.py --records results/recipe-2.jsonl    table and figure of runs that were made

Nothing is set but model, memory, segments, steps and target; rows that are about rates name their rates. A
run is asked for more than its row, half of what is missing to 1, since a validation set is small and what
counts is the test. Several commands run at a time (`--jobs`; on one GPU, start nvidia-cuda-mps-control
first). Run folders stay in `--out`, and the same call goes on with them. It writes recipe.jsonl (a line per
run), recipe.md (a line per row) and recipe.png (steps to the target over the number of segments). Of records,
the newest of each row and seed counts.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Condition
from typing import Any, NamedTuple

from rmt.seal import load_record, sealed
from rmt.train.folder import REMEDY

TOGETHER = 8  # seeds of one command
APART = 4  # the same where a curriculum trains them one after the other
MANY = 9  # segments of long copies; with more, answers are generated less often, for that takes longest
BATCH, POSITION = 64, 43_500  # sequences of a long copy's update; bytes that each of their positions takes
EVALUATION = 7  # gigabytes that a seed's evaluation keeps; both fitted to 51 and 43 GB of copy-360 and -240
XL_NAME = "Transformer-XL, "  # how names of its rows begin
LANGUAGE = "enwik8"  # how names of rows begin that need --data


class Row(NamedTuple):
    """A command, how many seeds it is run with, and what is asked for."""

    name: str
    command: str
    seeds: int
    steps: int
    target: float | None = 0.99  # of the task's metric; none = bits per character, as few as can be
    minutes: float = 1.0  # of a GPU, roughly: the longest start first
    gigabytes: float = 6.0  # of its memory, roughly: what does not fit beside others waits

    @property
    def asked(self) -> str:
        seeds = f"{self.steps:,} steps, {self.seeds} seed{'s' * (self.seeds > 1)}"
        return seeds if self.target is None else f"{self.target:g} in {seeds}"

    @property
    def together(self) -> int:
        """Seeds of one command."""
        return APART if self.command.startswith("retrieval") else TOGETHER

    def commands(self, out: Path, data: str) -> Iterator[list[str]]:
        """`train …`, each with some of the seeds."""
        stop = [] if self.target is None else ["--target", f"{(1 + self.target) / 2:g}"]
        text = ["--data", data] if self.target is None else []
        for first in range(0, self.seeds, self.together):
            count = min(self.together, self.seeds - first)
            asked = f"--steps {self.steps} --seed {first} --seeds {count} --quiet"
            folder = ["--out", str(self.folder(out) / str(first))]
            yield ["train", *shlex.split(f"{self.command} {asked}"), *stop, *text, *folder]

    def folder(self, out: Path) -> Path:
        return out / self.name.replace(" ", "-").replace(",", "").replace("÷", "half").replace("×", "twice")

    def results(self, out: Path) -> list[dict[str, Any]]:
        """What came out so far, seed by seed, with the first step at which validation was as asked."""
        results = []
        for file in self.folder(out).glob("**/result.json"):
            result = load_record(file, REMEDY)
            reached = self.first_step(file.parent / "metrics.jsonl", result["metric"])
            results.append(sealed(result | {"row": self.name, "reached": reached}))
        return sorted(results, key=lambda result: result["seed"])

    def first_step(self, log: Path, metric: str) -> int | None:
        """The first evaluation of a run that is as good as was asked for."""
        if self.target is None:
            return None
        lines = map(json.loads, log.read_text().splitlines())
        scores = ((line["step"], line[metric]) for line in lines if line.get("split") == "valid")
        return next((step for step, score in scores if score >= self.target), None)


def sequences(task: str, length: int, cells: dict[int, int], seeds: int, model: str = "") -> Iterator[Row]:
    """A task in several numbers of segments; `cells` are steps by segments."""
    for segments, steps in cells.items():
        who = XL_NAME if model else ""
        name = f"{who}{task}-{length} in {segments}"
        command = f"{task} --segments {segments} --length {length} --size paper {model}".strip()
        yield Row(name, command, seeds, steps, minutes=segments / 9)


def long_copy(length: int, segments: int, memory: int, seeds: int, steps: int) -> Row:
    """A copy of which memory holds several symbols a slot."""
    options = f"--segments {segments} --length {length} --memory {memory} --size paper"
    if segments > MANY:
        options += " --train.evaluate_every 250 --train.test_samples 1000"
    minutes = seeds * steps * segments / 10_000
    positions = BATCH * (3 * length + 2 * memory * segments)
    room = {"minutes": minutes, "gigabytes": seeds * (EVALUATION + positions * POSITION / 1e9)}
    return Row(f"copy-{length} in {segments}", f"copy {options}", seeds, steps, **room)


XL = "--model transformer_xl"
HALF, TWICE = "--matrix_lr 0.005 --lr 0.0005", "--matrix_lr 0.02 --lr 0.002"
COPY_9 = "copy --segments 9 --length 24 --size paper"
COPY_360 = "copy --segments 9 --length 360 --memory 60 --size paper"
QUADRATIC = "quadratic --segments 6 --size paper"
LANGUAGE_MODEL = "text --size enwik8-base"
ROWS = (
    *sequences("copy", 24, {3: 1000, 6: 1000, 9: 1000, 18: 1000}, 8),
    *sequences("reverse", 24, {2: 1000, 4: 1000, 6: 1500}, 8),
    long_copy(120, 9, 40, 4, 1500),
    long_copy(240, 6, 60, 4, 1500),
    long_copy(360, 9, 60, 4, 1500),
    long_copy(720, 18, 120, 3, 5000),
    long_copy(1000, 25, 120, 3, 5000),
    long_copy(120, 45, 40, 3, 3000),
    Row("retrieval in 2", "retrieval --segments 2 --memory 5 --size paper", 8, 5000, minutes=3),
    Row("retrieval in 3", "retrieval --segments 3 --memory 3 --size paper", 32, 5000, minutes=3),
    Row("retrieval in 5", "retrieval --segments 5 --memory 2 --size paper", 8, 5000, minutes=3),
    Row("quadratic in 6, rotary", f"{QUADRATIC} --model.positions rotary", 3, 5000, 0.995, 5),
    Row("quadratic in 6, relative", QUADRATIC, 1, 5000, 0.995, 4),
    *sequences("copy", 24, {3: 3000, 6: 3000, 9: 3000}, 3, XL),
    *sequences("reverse", 24, {2: 3000, 4: 3000}, 3, XL),
    Row("copy-24 in 9, rates ÷2", f"{COPY_9} {HALF}", 2, 1500),
    Row("copy-24 in 9, rates ×2", f"{COPY_9} {TWICE}", 2, 1500),
    Row("copy-360 in 9, rates ÷2", f"{COPY_360} {HALF}", 2, 2250, minutes=3, gigabytes=26),
    Row("copy-360 in 9, rates ×2", f"{COPY_360} {TWICE}", 2, 2250, minutes=3, gigabytes=26),
    Row("enwik8", LANGUAGE_MODEL, 1, 3000, None, 10, 16),
    Row("enwik8, rates ÷2", f"{LANGUAGE_MODEL} {HALF}", 1, 3000, None, 10, 16),
    Row("enwik8, rates ×2", f"{LANGUAGE_MODEL} {TWICE}", 1, 3000, None, 10, 16),
)
SMALL = (
    Row("small copy-12 in 9", "copy --segments 9 --length 12 --memory 4 --device cpu", 2, 1500, 0.985),
    Row("small retrieval in 3", "retrieval --segments 3 --memory 3 --device cpu", 2, 5000, 0.985),
)


def chosen(names: Sequence[str], data: str) -> list[Row]:
    """The rows whose names begin with one of these words; without any, those of the paper's sizes."""
    if not names:
        return [row for row in ROWS if data or not row.name.startswith(LANGUAGE)]
    beginnings = re.compile(rf"({'|'.join(map(re.escape, names))})(?!\w)")  # copy-24 is not copy-240
    rows = [row for row in (*ROWS, *SMALL) if beginnings.match(row.name)]
    if not rows:
        known = ", ".join(row.name for row in (*ROWS, *SMALL))
        raise SystemExit(f"no row begins with {' or '.join(names)}; there are: {known}")
    return rows


class Room:
    """A card's memory, shared by commands that run side by side."""

    def __init__(self, gigabytes: float):
        self.whole = self.free = gigabytes
        self.changed = Condition()

    @contextmanager
    def of(self, gigabytes: float) -> Iterator[None]:
        """Wait for so much, or for all there is."""
        wanted = min(gigabytes, self.whole)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= wanted)
            self.free -= wanted
        try:
            yield
        finally:
            with self.changed:
                self.free += wanted
                self.changed.notify_all()


def run(command: Sequence[str], gigabytes: float, room: Room) -> int:
    """The product's own command, when there is memory for it; returns how it ended."""
    with room.of(gigabytes):
        return subprocess.run([sys.executable, "-m", "rmt", *command], check=False).returncode


def newest(file: Path) -> list[dict[str, Any]]:
    """Of the records in a file, a line each, the last of every row and seed."""
    records = [json.loads(line) for line in file.read_text().splitlines()]
    last = {(record.get("row"), record["seed"]): record for record in records}
    return sorted(last.values(), key=lambda record: record["seed"])


def table(rows: Sequence[Row], records: Sequence[dict[str, Any]]) -> list[str]:
    """A line per row: what was asked for, and what came."""
    lines = [
        "| | asked for | seeds | as good in the test | as good in validation at step | last step | test |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        results = [record for record in records if record.get("row") == row.name]
        if not results:
            lines.append(f"| {row.name} | {row.asked} | 0 | – | – | – | – |")
            continue
        values, steps = [result["value"] for result in results], [result["steps"] for result in results]
        good = sum(value >= row.target for value in values) if row.target is not None else "–"
        reached = [result["reached"] for result in results if result["reached"] is not None]
        lines.append(
            f"| {row.name} | {row.asked} | {len(results)} | {good} | {spread(reached, '{:,}')} | "
            f"{spread(steps, '{:,}')} | {spread(values, '{:.4f}')} |"
        )
    return lines


def spread(values: Sequence[float], form: str) -> str:
    """The least and the most."""
    if not values:
        return "–"
    ends = [form.format(value) for value in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def without_model(name: str) -> str:
    """The task of a row, which has one colour for all models."""
    return name.removeprefix(XL_NAME)


def draw(rows: Sequence[Row], records: Sequence[dict[str, Any]], file: Path) -> None:
    """Steps to the target over the number of segments: a dot for every seed, a line through the medians."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    figure, axes = pyplot.subplots(figsize=(7.6, 4), layout="constrained")  # inches
    drawn = {
        row.name for row in rows if not row.name.startswith(("small", LANGUAGE)) and "rates" not in row.name
    }
    tasks: dict[str, dict[int, list[int]]] = {}  # steps of seeds by segments
    for record in records:
        if record.get("row") in drawn and record["reached"]:
            name, _, segments = record["row"].partition(" in ")
            tasks.setdefault(name, {}).setdefault(int(segments.split(",")[0]), []).append(record["reached"])
    colours = {task: f"C{number}" for number, task in enumerate(sorted({*map(without_model, tasks)}))}
    for name, seeds in sorted(tasks.items(), key=lambda entry: without_model(entry[0])):
        counts = sorted(seeds)
        style = {
            "color": colours[without_model(name)],
            "linestyle": "--" if name.startswith(XL_NAME) else "-",
        }
        medians = [median(seeds[count]) for count in counts]
        axes.plot(counts, medians, label=name, linewidth=1, marker="_", markersize=9, **style)
        points = [(count, steps) for count in counts for steps in seeds[count]]
        axes.scatter(*zip(*points, strict=True), s=14, alpha=0.6, color=style["color"], linewidths=0)
    axes.set(xlabel="segments", ylabel="updates until the target", xscale="log", yscale="log")
    axes.xaxis.set_major_locator(FixedLocator([2, 3, 4, 5, 6, 9, 18, 25, 45]))
    axes.yaxis.set_major_locator(FixedLocator([200, 300, 500, 1000, 2000, 5000]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.spines[["top", "right"]].set_visible(False)
    if tasks:
        figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of rows' names; none = all of the paper's sizes")
    parser.add_argument("--out", type=Path, default=Path("runs/recipe"))
    parser.add_argument("--data", default="", help="a text for the language models; none = without them")
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time")
    parser.add_argument("--memory", type=float, default=120, help="gigabytes of the GPU that they may take")
    parser.add_argument("--records", type=Path, help="train nothing: these runs, a line of JSON each")
    options = parser.parse_args(arguments)
    rows = chosen(options.names, options.data)
    options.out.mkdir(parents=True, exist_ok=True)
    codes = [] if options.records else train(rows, options)
    records = newest(options.records) if options.records else results(rows, options.out)
    (options.out / "recipe.md").write_text("\n".join(table(rows, records)) + "\n")
    draw(rows, records, options.out / "recipe.png")
    print("\n".join(table(rows, records)))
    if any(codes):
        raise SystemExit(f"{sum(map(bool, codes))} of {len(codes)} commands did not end well")


def train(rows: Sequence[Row], options: argparse.Namespace) -> list[int]:
    """Run every row's commands, the longest first; returns how they ended."""
    longest_first = sorted(rows, key=lambda row: -row.minutes)
    commands = [
        (command, row.gigabytes)
        for row in longest_first
        for command in row.commands(options.out, options.data)
    ]
    room = Room(options.memory)
    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(lambda planned: run(*planned, room), commands))


def results(rows: Sequence[Row], out: Path) -> list[dict[str, Any]]:
    """What came of all rows, written to recipe.jsonl as well."""
    records = [result for row in rows for result in row.results(out)]
    (out / "recipe.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return records


if __name__ == "__main__":
    main()
