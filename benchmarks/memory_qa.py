"""memory-qa: trained on at most eight segments, asked from up to 128 times as far away.

    python benchmarks/memory_qa.py --data DATA --out runs/memory-qa --device cuda

DATA has babi/ and books/ (see docs/streaming.md). Three models with the same backbone: RMT, Transformer-XL
with a cache as long as a segment, and one that forgets at every border. Each is trained on inputs of 1, 2, 4
and 8 segments, on the next when the last is mastered, and then asked test questions hidden in a novel that it
has never seen. The same command goes on where it stopped. It writes OUT/memory-qa.jsonl and prints a table.
"""

from __future__ import annotations

import argparse
import json
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
from rmt.train.log import environment

MODELS: dict[str, dict[str, Any]] = {
    "rmt": {"memory": {"size": 16}},
    "transformer_xl": {},  # the cache is as long as a segment
    "baseline": {},
}
BACKBONE = {"layers": 4, "heads": 4, "head_width": 32, "width": 128, "inner_width": 512}
SETTINGS = {"positions": "rotary", "init": "scaled"}  # with a low rate and a large batch, as for retrieval
SMALL = {"layers": 2, "heads": 2, "head_width": 16, "width": 32, "inner_width": 64}


def configuration(model: str, seed: int, arguments: argparse.Namespace) -> RunConfig:
    """Inputs of 1, 2, 4 and 8 segments, full BPTT through all of them."""
    return resolve(
        {
            "task": {
                "name": "memory-qa",
                "length": arguments.segments * arguments.segment,
                "segments": arguments.segments,
                "options": {"data": arguments.data, "qa": arguments.qa},
            },
            "preset": model,
            "model": {**(SMALL if arguments.small else BACKBONE), **SETTINGS, **MODELS[model]},
            "optimizer": {"matrix_lr": 0.005},
            "curriculum": {"over": "length", "start": arguments.segment, "promote_at": arguments.promote_at},
            "train": {
                "batch": arguments.batch,
                "steps": arguments.steps,
                "evaluate_every": max(1, arguments.steps // 40),
                "evaluate_samples": 500,
                "save_every": max(1, arguments.steps // 40),
                "target": 0.99,
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
            model, task, arguments.segment, samples=arguments.samples, batch=arguments.batch
        )
        found.append({"times": times, "tokens": task.total_length, "accuracy": accuracy})
        print(f"{config.preset} {times}×: {accuracy:.3f}", flush=True)
    return found


def run(model: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The record of one model: trained, or found, and measured."""
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
        "trained_on": config.task.length,
        "steps": result["steps"],
        "seconds": result["seconds"],
        "samples": arguments.samples,
        "distances": measure(folder, config, arguments),
        "config": result["config"],
        "environment": environment(torch.device(arguments.device)),
    }


def table(records: list[dict[str, Any]]) -> str:
    """A row per run, a column per distance."""
    times = [distance["times"] for distance in records[0]["distances"]]
    head = ["model", "memory", "cache", "seed", "steps", *(f"{one}×" for one in times)]
    rows = [
        [record[name] for name in ("model", "memory", "cache", "seed", "steps")]
        + [f"{distance['accuracy']:.3f}" for distance in record["distances"]]
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
    parser.add_argument("--segment", type=int, default=128, help="tokens per segment")
    parser.add_argument("--segments", type=int, default=8, help="at most, in training")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--promote_at", type=float, default=0.9)
    parser.add_argument("--multiples", type=numbers, default=[1, 2, 8, 32, 128])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--small", action="store_true", help="a model for a CPU")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: name the folder with bAbI and the novels with --data")
        return
    records = []
    for seed in arguments.seeds:
        for model in arguments.models.split(","):
            records.append(run(model, seed, arguments))
            lines = "".join(json.dumps(record) + "\n" for record in records)
            (Path(arguments.out) / "memory-qa.jsonl").write_text(lines)
    print(table(records))


if __name__ == "__main__":
    main()
