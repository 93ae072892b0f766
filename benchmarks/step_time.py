"""Time of one training step: the five models, as written and (on a GPU) recorded as a CUDA graph.

Ratios between rows of one run mean something on a busy machine; times only on an idle one.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from rmt.core.presets import PRESETS
from rmt.experiments.recipe import resolve
from rmt.train.config import build_task
from rmt.train.log import environment
from rmt.train.trainer import Trainer


def step_times(model: str, size: str, compile: str, steps: int) -> list[float]:
    """Milliseconds of each of `steps` steps on copy in three segments (small) or copy-24 in nine (paper)."""
    task = {"name": "copy", "length": 24, "segments": 9} if size == "paper" else {"name": "copy"}
    config = resolve({"task": task, "preset": model, "size": size, "compile": compile})
    return update_times(Trainer(config, build_task(config.task)), steps)


def update_times(trainer: Trainer, steps: int) -> list[float]:
    """Milliseconds of `steps` batches, after those that compile and record."""
    times = []
    for _ in range(4 + steps):
        start = time.perf_counter()
        for update in trainer.updates():
            float(update.loss)
        times.append(1000 * (time.perf_counter() - start))
    return times[4:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=["small", "paper"], default="small")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    print(environment(torch.device("cuda" if on_gpu else "cpu")))
    print("| model | as written, ms | recorded, ms |\n| --- | --- | --- |")
    for model in PRESETS:
        plain = statistics.median(step_times(model, arguments.size, "off", arguments.steps))
        fast = (
            statistics.median(step_times(model, arguments.size, "auto", arguments.steps)) if on_gpu else None
        )
        print(f"| {model} | {plain:.1f} | {f'{fast:.1f}' if fast else '–'} |", flush=True)


if __name__ == "__main__":
    main()
