"""Does learning suffer in bfloat16? The same runs in bf16-mixed and in 32-true, curves side by side.

Every run is `rmt train` with its defaults, but for precision, seed and budget; both precisions start from the
same weights and see the same examples. On a GPU these are the paper's sizes; elsewhere small ones,
to show that it runs. Several run at a time (`--jobs`). The page, the picture and the numbers go to `--out`;
run folders stay there, and the same command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rmt.train.log import environment

ON_GPU = torch.cuda.is_available()
PRECISIONS = ("32-true", "bf16-mixed")
COLOURS = {"32-true": "#777777", "bf16-mixed": "#1f77b4"}


class Case(NamedTuple):
    """A command and the seeds it is run with."""

    name: str
    command: str
    seeds: int
    curve: str  # what is drawn: a metric of validation, or the training loss


PAPER = "--size paper"
GPU_CASES = (
    Case("copy-24, 9 segments", f"copy --segments 9 --length 24 --steps 600 {PAPER}", 3, "accuracy"),
    Case("reverse-24, 6 segments", f"reverse --segments 6 --length 24 --steps 1000 {PAPER}", 1, "accuracy"),
    Case(
        "retrieval, 3 segments",
        f"retrieval --segments 3 --memory 3 --steps 5000 --target 0.995 {PAPER}",
        4,
        "accuracy",
    ),
    Case("quadratic, 6 segments", f"quadratic --segments 6 --steps 1500 {PAPER}", 1, "sequence_accuracy"),
    Case("enwik8, 12 × 512", "text --size enwik8-base --bptt.depth 2 --steps 600", 1, "loss"),
)
CPU_CASES = (
    Case("copy-4, 3 segments", "copy --length 4 --steps 40 --train.evaluate_every 20", 1, "accuracy"),
)


class Run(NamedTuple):
    """One training and where it is."""

    case: Case
    precision: str
    seed: int
    folder: Path

    def arguments(self, data: str) -> list[str]:
        """What follows `rmt train`."""
        options = ["--precision", self.precision, "--seed", str(self.seed), "--out", str(self.folder)]
        corpus = ["--data", data] if self.case.command.startswith("text") else []
        return [*shlex.split(self.case.command), *corpus, *options, "--quiet"]


def runs_of(cases: Sequence[Case], out: Path) -> Iterator[Run]:
    """Every case in both precisions with each seed."""
    for number, case in enumerate(cases):
        for precision in PRECISIONS:
            for seed in range(case.seeds):
                yield Run(case, precision, seed, out / f"run-{number}-{precision}-{seed}")


def train(run: Run, data: str) -> None:
    """The product's own command; what it says in error is shown."""
    command = [sys.executable, "-m", "rmt", "train", *run.arguments(data)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"{run.case.name}, {run.precision}, seed {run.seed}: {final(run):.4f}", flush=True)


def curve(run: Run) -> tuple[list[int], list[float]]:
    """Steps and values: of every validation, or of every line of the log for a training loss."""
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    is_validation = run.case.curve != "loss"
    chosen = [line for line in lines if ("split" in line) == is_validation and run.case.curve in line]
    return [line["step"] for line in chosen], [line[run.case.curve] for line in chosen]


def final(run: Run) -> float:
    """The test metric of a finished run."""
    return float(json.loads((run.folder / "result.json").read_text())["value"])


def table(runs: Sequence[Run]) -> list[str]:
    """A line for each case and seed, both precisions beside each other."""
    lines = ["| run | seed | metric | 32-true | bf16-mixed |", "| --- | --- | --- | --- | --- |"]
    by_case = {(run.case, run.seed, run.precision): run for run in runs}
    for case, seed in dict.fromkeys((run.case, run.seed) for run in runs):
        pair = [by_case[case, seed, precision] for precision in PRECISIONS]
        metric = json.loads((pair[0].folder / "result.json").read_text())["metric"]
        values = " | ".join(f"{final(run):.4f}" for run in pair)
        lines.append(f"| {case.name} | {seed} | {metric} | {values} |")
    return lines


def draw(runs: Sequence[Run], path: Path) -> None:
    """A panel for each case."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    cases = list(dict.fromkeys(run.case for run in runs))
    size = (3.6 * len(cases), 3.2)  # inches
    figure, panels = pyplot.subplots(1, len(cases), figsize=size, layout="constrained", squeeze=False)
    for case, axes in zip(cases, panels[0], strict=True):
        for run in (run for run in runs if run.case == case):
            label = run.precision if run.seed == 0 else None
            axes.plot(*curve(run), color=COLOURS[run.precision], label=label, linewidth=1.2)
        axes.set(title=case.name, xlabel="updates", ylabel=case.curve)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def write(runs: Sequence[Run], out: Path) -> None:
    """The page, the picture, and the numbers with what they were made on."""
    draw(runs, out / "precision.png")
    about: dict[str, Any] = environment(torch.device("cuda" if ON_GPU else "cpu"))
    numbers = [
        {"run": run.case.name, "command": run.case.command, "precision": run.precision, "seed": run.seed}
        | {"value": final(run), "curve": curve(run)}
        for run in runs
    ]
    (out / "precision.json").write_text(json.dumps({"environment": about, "runs": numbers}, indent=1) + "\n")
    cases = dict.fromkeys(run.case for run in runs)
    commands = [f"- {case.name}: `rmt train {case.command}`" for case in cases]
    made_with = ", ".join(f"{name} {value}" for name, value in about.items() if isinstance(value, str))
    head = ["# bf16-mixed against 32-true", "", made_with]
    page = [*head, "", *table(runs), "", *commands, "", "![Curves](precision.png)"]
    (out / "precision.md").write_text("\n".join(page) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of the cases' names; none = all cases")
    parser.add_argument("--data", default="", help="a text for the language model; none = it is left out")
    parser.add_argument("--out", type=Path, default=Path("runs/precision"))
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    cases = [
        case
        for case in (GPU_CASES if ON_GPU else CPU_CASES)
        if options.data or not case.command.startswith("text")
        if not options.names or case.name.startswith(tuple(options.names))
    ]
    runs = list(runs_of(cases, options.out))
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda run: train(run, options.data), runs))
    write(runs, options.out)
    print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
