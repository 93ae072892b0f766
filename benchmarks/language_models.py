"""The paper's language models on made text: step time, peak memory, an exact resume; memory over depth.

`python benchmarks/language_models.py sizes` builds the 16 × 410 model of WikiText-103 with 267,735 words and
the 12 × 512 model of enwik8, trains and resumes them. `… depth` draws peak memory over BPTT depth, with and
without recomputed segments. Without a GPU both run a small model, to show that they run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from step_time import update_times

from rmt.core.presets import PRESETS
from rmt.experiments.recipe import resolve
from rmt.tasks.corpora import find_source
from rmt.tasks.prepare import FILE, prepare_corpus
from rmt.tasks.vocabulary import Words
from rmt.train.checkpoint import read_parts, write_parts
from rmt.train.config import build_task
from rmt.train.log import environment
from rmt.train.snapshots import restore, snapshot
from rmt.train.trainer import Trainer

ON_GPU = torch.cuda.is_available()
SYMBOLS = {"wt103-base": 267_735, "enwik8-base": 204}
EXPONENT = 1.2  # of the rank: about 5 % of the words lie beyond the first cutoff, 20,000, as in WikiText-103
COUNT = 400_000 if ON_GPU else 20_000  # tokens of the made text


def made_text(size: str, folder: Path) -> str:
    """A prepared corpus whose token frequencies fall as 1/rank, in the vocabulary size of the real one."""
    symbols = SYMBOLS[size] if ON_GPU else 2_000
    place = folder / f"{size}-{symbols}"
    if not place.exists():
        words = [f"w{rank}" for rank in range(symbols - 1)]
        text = folder / f"{size}.text"
        text.mkdir(parents=True)
        Words(["<eos>", *words]).write(text / FILE)
        odds = np.arange(1, symbols) ** -EXPONENT
        drawn = np.random.default_rng(0).choice(len(words), COUNT, p=odds / odds.sum())
        parts = np.split(drawn, [COUNT // 2, COUNT * 3 // 4])
        for split, part in zip(("train", "valid", "test"), parts, strict=True):
            (text / f"{split}.txt").write_text(" ".join(words[rank] for rank in part))
        prepare_corpus(find_source(str(text), "words"), place, vocabulary=text / FILE)
    return str(place)


def config_of(size: str, model: str, data: str, **settings: Any) -> Any:
    """The paper's sizes on a GPU, a small model elsewhere."""
    given = {"task": {"name": "text", "data": data}, "size": size, "preset": model, **settings}
    if not ON_GPU:
        return resolve({**given, "scale": "cpu", "device": "cpu"})
    return resolve({**given, "precision": "bf16-mixed"})


def sizes(folder: Path, models: list[str]) -> None:
    print("| size | model | parameters | tokens per update | ms per update | peak GiB | resumed = went on |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in SYMBOLS:
        data = made_text(size, folder)
        for model in models:
            clear()
            config = config_of(size, model, data)
            trainer = Trainer(config, build_task(config.task))
            times = update_times(trainer, 10)
            peak = torch.cuda.max_memory_allocated() / 2**30 if ON_GPU else float("nan")
            same = resumes(trainer, config, folder / "checkpoint")
            count = sum(parameter.numel() for parameter in trainer.model.parameters())
            tokens = config.train.batch * config.task.segment_length * (int(config.bptt.depth) + 1)
            print(
                f"| {size} | {model} | {count:,} | {tokens:,} | {statistics.median(times):.1f} "
                f"({min(times):.1f}–{max(times):.1f}) | {peak:.1f} | {same} |",
                flush=True,
            )


def resumes(trainer: Trainer, config: Any, place: Path) -> bool:
    """Whether a trainer restored from the files of this one has the same next loss, to the last bit."""
    place.mkdir(exist_ok=True)
    write_parts(place, snapshot(trainer))
    again = Trainer(config, trainer.task)
    restore(again, read_parts(place))
    mine, theirs = (next(one.updates()) for one in (trainer, again))
    return bool(mine.loss == theirs.loss)


def depth(folder: Path, depths: list[int], out: Path) -> None:
    data, rows = made_text("enwik8-base", folder), []
    print(
        "| depth | segments in the graph | peak GiB | with recomputed segments | gradient norms differ by |"
    )
    print("| --- | --- | --- | --- | --- |")
    for reach in depths:
        peaks, norms = [], []
        for checkpoint in (False, True):
            clear()
            bptt = {"depth": reach, "schedule": "chunked", "checkpoint": checkpoint}
            config = config_of("enwik8-base", "rmt", data, bptt=bptt, compile="off")
            trainer = Trainer(config, build_task(config.task))
            update = next(trainer.updates())
            norms.append(float(update.norm))
            peaks.append(torch.cuda.max_memory_allocated() / 2**30 if ON_GPU else float("nan"))
            del trainer, update
        rows.append((reach, *peaks))
        gap = abs(norms[0] - norms[1]) / norms[0]
        print(f"| {reach} | {reach + 1} | {peaks[0]:.2f} | {peaks[1]:.2f} | {gap:.1e} |", flush=True)
    if ON_GPU:
        (out / "depth.json").write_text(json.dumps(rows))
        draw(rows, out / "memory-over-depth.png")


def draw(rows: list[tuple[int, float, float]], path: Path) -> None:
    import matplotlib.pyplot as plt

    reach, plain, recomputed = zip(*rows, strict=True)
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axes.plot(reach, plain, marker="o", label="as written")
    axes.plot(reach, recomputed, marker="o", label="segments recomputed")
    axes.set(xlabel="BPTT depth, segments", ylabel="peak memory, GiB", ylim=(0, None))
    axes.set_title("RMT, 12 layers × 512, 64 lanes of 128 tokens, memory 10")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def clear() -> None:
    """Forget what earlier models left on the GPU."""
    if ON_GPU:
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["sizes", "depth", "all"], nargs="?", default="all")
    parser.add_argument("--models", nargs="+", default=["rmt", "transformer_xl_rmt"], choices=PRESETS)
    parser.add_argument("--depths", nargs="+", type=int, default=list(range(9)) if ON_GPU else [0, 1])
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    print(environment(torch.device("cuda" if ON_GPU else "cpu")))
    with tempfile.TemporaryDirectory() as folder:
        if arguments.part in ("sizes", "all"):
            sizes(Path(folder), arguments.models)
        if arguments.part in ("depth", "all"):
            depth(Path(folder), arguments.depths, arguments.out)


if __name__ == "__main__":
    main()
