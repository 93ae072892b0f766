"""memory-qa: trained on at most eight segments, asked from up to 128 times as far away.

    python benchmarks/memory_qa.py --data DATA --out runs/memory-qa --device cuda

DATA has babi/ and books/ (see docs/streaming.md). Three models with the same backbone, side by side: RMT,
Transformer-XL with a cache as long as a segment, and one that forgets at every border. Each begins with the
shortest stories, 16 tokens, on twice the length when that is mastered, up to eight segments. It is then asked
test questions hidden in a novel that it has never seen. The same command goes on where it stopped. It writes
OUT/memory-qa.jsonl and prints a table.
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
from rmt.evaluate.distant import distant_accuracy
from rmt.experiments.recipe import resolve
from rmt.experiments.run import train
from rmt.tasks.memory_qa import MemoryQA
from rmt.train.checkpoint import load
from rmt.train.config import RunConfig, build_task
from rmt.train.curriculum import Curriculum
from rmt.train.log import environment

MODELS = ("rmt", "transformer_xl", "baseline")
BACKBONE = {"layers": 4, "heads": 4, "head_width": 32, "width": 128, "inner_width": 512}
SMALL = {"layers": 3, "heads": 4, "head_width": 16, "width": 64, "inner_width": 256}
START = 16  # tokens of the shortest stories of qa1: two facts and a question


def configuration(model: str, seed: int, arguments: argparse.Namespace) -> RunConfig:
    """Inputs from one short story to all segments, full BPTT through all of them."""
    memory = {"memory": {"size": arguments.memory}} if model == "rmt" else {}
    often = max(1, arguments.steps // 40)
    return resolve(
        {
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
                **memory,
            },
            "optimizer": {"matrix_lr": arguments.matrix_lr},
            "curriculum": {"over": "length", "start": arguments.start, "promote_at": arguments.promote_at},
            "train": {
                "batch": arguments.batch,
                "steps": arguments.steps,
                "evaluate_every": often,
                "evaluate_samples": 500,
                "save_every": often,
            },
            "seed": seed,
            "device": arguments.device,
        }
    )


def measure(folder: Path, config: RunConfig, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy on test questions from each distance."""
    model = load(folder).to(arguments.device)
    whole = build_task(config.task)
    assert isinstance(whole, MemoryQA)
    found = []
    for times in arguments.multiples:
        task = whole.with_length(times * whole.length)
        accuracy = distant_accuracy(
            model, task, arguments.segment, samples=arguments.samples, batch=arguments.evaluate_batch
        )
        found.append({"times": times, "tokens": task.total_length, "accuracy": accuracy})
        print(
            f"{config.preset}-{config.seed}  {times}× {task.total_length} tokens  {accuracy:.3f}", flush=True
        )
    return found


def run(model: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The record of one model: trained, or found, and measured."""
    torch.set_num_threads(1)
    config = configuration(model, seed, arguments)
    folder = Path(arguments.out) / f"{model}-{seed}"
    with observer(f"{model}-{seed}", config.train.steps, quiet=False) as watcher:
        result, _ = train(config, folder, watcher)
    return {
        "model": model,
        "seed": seed,
        "memory": config.model.memory.size,
        "cache": config.model.cache.size,
        "segment": arguments.segment,
        "length": config.task.length,
        "trained_on": longest_stage(folder, config),
        "steps": result["steps"],
        "seconds": result["seconds"],
        "samples": arguments.samples,
        "distances": measure(folder, config, arguments),
        "config": result["config"],
        "environment": environment(torch.device(arguments.device)),
    }


def longest_stage(folder: Path, config: RunConfig) -> int:
    """The tokens of the longest inputs that a model earned to be trained on."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    stage = max(line.get("stage", 0) for line in lines)
    task = build_task(config.task)
    return Curriculum(config.curriculum, task, config.task.segments).stages[stage].task.total_length


def table(records: list[dict[str, Any]]) -> str:
    """A row per run, a column per distance."""
    times = [distance["times"] for distance in records[0]["distances"]]
    names = ["model", "memory", "cache", "seed", "steps", "trained_on"]
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
    parser.add_argument("--matrix_lr", type=float, default=0.005)
    parser.add_argument("--steps", type=int, default=8000)
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
