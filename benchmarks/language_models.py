"""The paper's language models on made text: parameters, step time, peak memory, and an exact resume.

Builds the 16 × 410 model of WikiText-103 with 267,735 words and the 12 × 512 model of enwik8, trains and
resumes them. Without a GPU it builds small models, to show that it runs. `rmt bench` has speed and memory in
detail, also over the number of segments.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from rmt.bench.measure import alone, peak_memory, spread, update_times
from rmt.bench.text import made_text
from rmt.core.presets import PRESETS
from rmt.experiments.recipe import resolve
from rmt.train.checkpoint import load_parts, write_parts
from rmt.train.config import build_task
from rmt.train.log import environment
from rmt.train.snapshots import restore, snapshot
from rmt.train.trainer import Trainer

ON_GPU = torch.cuda.is_available()
SYMBOLS = {"wt103-base": 267_735, "enwik8-base": 204}


def config_of(size: str, model: str, folder: Path) -> Any:
    """The paper's sizes on a GPU, a small model elsewhere."""
    data = made_text(SYMBOLS[size], folder) if ON_GPU else made_text(2000, folder, 20_000)
    given = {"task": {"name": "text", "data": data}, "size": size, "preset": model}
    if not ON_GPU:
        return resolve({**given, "scale": "cpu", "device": "cpu"})
    return resolve({**given, "precision": "bf16-mixed"})


def measured(size: str, model: str, folder: Path) -> str:
    """A row of the table."""
    config = config_of(size, model, folder)
    trainer = Trainer(config, build_task(config.task))
    step = spread([1000 * seconds for seconds in update_times(trainer, 10)])
    peak = (peak_memory(trainer.processes.device) or 0) / 2**30
    same = resumes(trainer, config, folder / "checkpoint")
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    tokens = config.train.batch * config.task.segment_length * (int(config.bptt.depth) + 1)
    return (
        f"| {size} | {model} | {count:,} | {tokens:,} | {step.median:.1f} ({step.low:.1f}–{step.high:.1f}) "
        f"| {peak:.1f} | {same} |"
    )


def resumes(trainer: Trainer, config: Any, place: Path) -> bool:
    """Whether a trainer restored from the files of this one has the same next loss, to the last bit."""
    place.mkdir(exist_ok=True)
    write_parts(place, snapshot(trainer))
    again = Trainer(config, trainer.task)
    restore(again, load_parts(place))
    mine, theirs = (next(one.updates()) for one in (trainer, again))
    return bool(mine.loss == theirs.loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["rmt", "transformer_xl_rmt"], choices=PRESETS)
    arguments = parser.parse_args()
    print(environment(torch.device("cuda" if ON_GPU else "cpu")))
    print("| size | model | parameters | tokens per update | ms per update | peak GiB | resumed = went on |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for size in SYMBOLS:
            for model in arguments.models:
                with alone(f"{size}, {model}"):
                    print(measured(size, model, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
