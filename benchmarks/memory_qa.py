"""memory-qa: trained on at most eight segments, asked from up to 128 times as far away.

    python benchmarks/memory_qa.py --data DATA --out runs/memory-qa --device cuda

DATA has babi/ and books/ (see docs/streaming.md). Three models with the same backbone, side by side: RMT,
Transformer-XL with a cache as long as a segment, and one that forgets at every border. Each is trained twice.
First it learns to answer: from stories of 16 tokens to twice the length when that is mastered, up to eight
segments. Then it learns to hold: all eight segments, with dropout, which memory has to withstand. At the end
it is asked test questions hidden in a novel that it has never seen. The same command goes on where it
stopped. It writes OUT/memory-qa.jsonl and prints a table.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from rmt.cli.progress import observer
from rmt.core.model import SegmentModel
from rmt.evaluate.distant import distant_accuracy
from rmt.experiments.recipe import Settings, merge, resolve
from rmt.experiments.run import load_result, opened, train
from rmt.tasks.memory_qa import MemoryQA
from rmt.train.checkpoint import Checkpoints, load
from rmt.train.config import RunConfig, build_task
from rmt.train.curriculum import Curriculum
from rmt.train.log import environment
from rmt.train.loop import Loop, Observer

MODELS = ("rmt", "transformer_xl", "baseline")
BACKBONE = {"layers": 4, "heads": 4, "head_width": 32, "width": 128, "inner_width": 512}
SMALL = {"layers": 3, "heads": 4, "head_width": 16, "width": 64, "inner_width": 256}
START = 16  # tokens of the shortest stories of qa1: two facts and a question


def configuration(model: str, seed: int, arguments: argparse.Namespace, phase: Settings) -> RunConfig:
    """The whole task with full BPTT through all segments, trained as a phase says."""
    often = max(1, phase["train"]["steps"] // 40)
    common: Settings = {
        "task": {
            "name": "memory-qa",
            "length": arguments.segments * arguments.segment,
            "segments": arguments.segments,
            "options": {"data": arguments.data, "qa": arguments.qa},
        },
        "preset": model,
        "model": {
            **(SMALL if arguments.small else BACKBONE),
            "positions": arguments.positions,
            "init": "scaled",
            **({"memory": {"size": arguments.memory}} if model == "rmt" else {}),
        },
        "train": {
            "batch": arguments.batch,
            "evaluate_every": often,
            "evaluate_samples": 500,
            "save_every": often,
        },
        "seed": seed,
        "device": arguments.device,
        # inputs of many lengths: compiling each would take longer than training on it
        **({"precision": "bf16-mixed", "compile": "record"} if arguments.device == "cuda" else {}),
    }
    return resolve(merge(common, phase))


def growing(arguments: argparse.Namespace) -> Settings:
    """From the shortest stories to all segments, until nearly all questions are answered."""
    return {
        "optimizer": {"matrix_lr": arguments.matrix_lr},
        "rate": {"schedule": "constant"},
        "curriculum": {"over": "length", "start": arguments.start, "promote_at": arguments.promote_at},
        "train": {"steps": arguments.steps, "target": 0.99},
    }


def holding(arguments: argparse.Namespace) -> Settings:
    """All segments for every model, at a lower rate; what is kept has to withstand dropout."""
    return {
        "model": {"dropout": arguments.dropout},
        "optimizer": {"matrix_lr": arguments.hold_lr, "lr": 5e-4},
        "train": {"steps": arguments.hold_steps},
    }


def run(model: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The record of one model: trained, or found, and measured."""
    name = f"{model}-{seed}"
    grow = configuration(model, seed, arguments, growing(arguments))
    hold = configuration(model, seed, arguments, holding(arguments))
    folders = [Path(arguments.out) / name / phase for phase in ("grow", "hold")]
    with observer(f"{name} grow", grow.train.steps, quiet=False) as watcher:
        grown, _ = train(grow, folders[0], watcher)
    with observer(f"{name} hold", hold.train.steps, quiet=False) as watcher:
        held = load_result(folders[1]) or continued(hold, folders, watcher)
    return {
        "model": model,
        "seed": seed,
        "memory": hold.model.memory.size,
        "cache": hold.model.cache.size,
        "segment": arguments.segment,
        "trained_on": hold.task.length,
        "reached": reached(folders[0], grow),
        "steps": [grown["steps"], held["steps"]],
        "seconds": [grown["seconds"], held["seconds"]],
        "samples": arguments.samples,
        "distances": measure(last(folders[1]), hold, arguments),
        "configs": [grown["config"], held["config"]],
        "environment": environment(torch.device(arguments.device)),
    }


def continued(config: RunConfig, folders: list[Path], watcher: Observer) -> dict[str, Any]:
    """The result of a run in the second folder that starts with the weights of the first."""
    loop = Loop(config, folders[1], watcher)
    loop.trainer.model.load_state_dict(last(folders[0]).state_dict())
    with opened(loop, restart=False):
        return loop.run()


def last(folder: Path) -> SegmentModel:
    """The model at the end of a run: the best one on validation may not hold for as long."""
    checkpoints = Checkpoints(folder)
    return load(checkpoints.folder / checkpoints.named("last"))


def reached(folder: Path, config: RunConfig) -> int:
    """The tokens of the longest inputs that a model was promoted to."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    stage = max(line.get("stage", 0) for line in lines)
    curriculum = Curriculum(config.curriculum, build_task(config.task), config.task.segments)
    return curriculum.stages[stage].task.total_length


def measure(model: SegmentModel, config: RunConfig, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy on test questions from each distance."""
    model.to(arguments.device)
    whole = build_task(config.task)
    assert isinstance(whole, MemoryQA)
    found = []
    for times in arguments.multiples:
        task = whole.with_length(times * whole.length)
        accuracy = distant_accuracy(
            model, task, arguments.segment, samples=arguments.samples, batch=arguments.evaluate_batch
        )
        found.append({"times": times, "tokens": task.total_length, "accuracy": accuracy})
        print(f"{config.preset}-{config.seed}  {times}×  {accuracy:.3f}", flush=True)
    return found


def table(records: list[dict[str, Any]]) -> str:
    """A row per run, a column per distance."""
    times = [distance["times"] for distance in records[0]["distances"]]
    names = ["model", "memory", "cache", "seed", "reached"]
    head = [*names, *(f"{one}×" for one in times)]
    rows = [
        [record[name] for name in names] + [f"{distance['accuracy']:.3f}" for distance in record["distances"]]
        for record in records
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder with babi/ and books/; without it there is nothing to do")
    parser.add_argument("--out", default="runs/memory-qa")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--qa", type=int, default=1)
    parser.add_argument("--segment", type=int, default=64, help="tokens per segment")
    parser.add_argument("--segments", type=int, default=8, help="at most, in training")
    parser.add_argument("--start", type=int, default=START, help="tokens of the first inputs")
    parser.add_argument("--memory", type=int, default=8, help="memory tokens of RMT")
    parser.add_argument("--positions", default="relative", choices=["relative", "rotary"])
    parser.add_argument("--steps", type=int, default=6000, help="at most, to learn to answer")
    parser.add_argument("--matrix_lr", type=float, default=0.005)
    parser.add_argument("--hold_steps", type=int, default=4000, help="to learn to hold")
    parser.add_argument("--hold_lr", type=float, default=0.002)
    parser.add_argument("--dropout", type=float, default=0.1, help="while learning to hold")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--promote_at", type=float, default=0.9)
    parser.add_argument("--multiples", type=numbers, default=[1, 2, 8, 32, 128])
    parser.add_argument("--samples", type=int, default=1000, help="test questions at each distance")
    parser.add_argument("--evaluate_batch", type=int, default=500)
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--jobs", type=int, default=3, help="runs at a time")
    parser.add_argument("--small", action="store_true", help="a model for a CPU")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: name the folder with bAbI and the novels with --data")
        return
    runs = [(model, seed) for seed in arguments.seeds for model in arguments.models.split(",")]
    records = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as pool:
        for record in pool.map(run, *zip(*runs, strict=True), repeat(arguments)):
            records.append(record)
            lines = "".join(json.dumps(one) + "\n" for one in records)
            (Path(arguments.out) / "memory-qa.jsonl").write_text(lines)
    print(table(records))


if __name__ == "__main__":
    main()
