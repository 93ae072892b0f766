"""Updates of two source trees, timed in turn on one machine: what a change costs.

    python benchmarks/two_trees.py OLD/src src copy-small text-small --rounds 10

Each tree has a process of its own per configuration of `rmt bench`, which warms up and then waits. In every
round first one and then the other makes a block of updates; the ratio of a round is new over old. A ratio of
medians within a few per cent of 1 says that nothing was lost, whatever else the machine was doing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

WARM_UP = 6  # updates that compile, record and fill caches
TOKENS = {"cuda": 2_400_000, "cpu": 400_000}  # of made text: a pass is longer than the measurement


def streamed() -> Callable[[], int]:
    """A segment fed to a session of the small model."""
    import torch

    import rmt

    model = rmt.SegmentModel(rmt.presets.rmt(memory=10, vocabulary=256)).eval()
    session = rmt.Session(model, segment_length=64)
    tokens = torch.randint(256, (1, 64))

    def feed() -> int:
        session.feed(tokens)
        return 1

    return feed


def wrapped() -> Callable[[], int]:
    """Forward and backward of texts of four segments through a small GPT-2 with memory."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    import rmt

    sizes = {"n_embd": 128, "n_layer": 4, "n_head": 4, "bos_token_id": 0, "eos_token_id": 0}
    base = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=128, **sizes))
    model = rmt.add_memory(base, memory=10, segment_length=64, kind="tokens")
    tokens = torch.randint(1, 256, (4, 256))

    def differentiate() -> int:
        model(input_ids=tokens, labels=tokens).loss.backward()
        return 1

    return differentiate


def documents() -> Callable[[], int]:
    """Forward and backward of 8 documents of a segment to four, as long as news are, through a small BERT."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    import rmt

    sizes = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
    base = BertForSequenceClassification(BertConfig(vocab_size=256, max_position_embeddings=128, **sizes))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = rmt.add_memory(base, memory=10, segment_length=64, max_segments=4, overlong="truncate").to(device)
    generator = torch.Generator().manual_seed(0)

    def differentiate() -> int:
        lengths = (4.2 + 0.85 * torch.randn(8, generator=generator)).exp().clamp(4, 400).long()
        tokens = torch.randint(5, 256, (8, int(lengths.max())), generator=generator)
        present = torch.arange(tokens.shape[1]) < lengths[:, None]
        rows = {"input_ids": tokens.to(device), "attention_mask": present.long().to(device)}
        model(**rows, labels=torch.arange(8, device=device) % 2).loss.backward()
        return 1

    return differentiate


# beside the configurations of rmt bench
OTHERS = {"stream": streamed, "wrapped-gpt2": wrapped, "wrapped-documents": documents}


def work(name: str, block: int) -> None:
    """Do blocks of a configuration's updates whenever a line comes in; print the seconds of one of them."""
    import torch

    torch.set_num_threads(1)
    if name in OTHERS:
        answer(OTHERS[name](), block)
        return

    from rmt.bench.configurations import CONFIGURATIONS
    from rmt.bench.text import made_text
    from rmt.experiments.recipe import merge, resolve
    from rmt.train.config import build_task
    from rmt.train.trainer import Trainer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = {"device": device, **({"precision": "bf16-mixed"} if device == "cuda" else {"threads": 1})}
    configuration = CONFIGURATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        if configuration.symbols:
            data = made_text(configuration.symbols, Path(folder), TOKENS[device])
            settings["task"] = {"data": data}
        config = resolve(merge(settings, configuration.settings))
        trainer = Trainer(config, build_task(config.task))
        answer(lambda: len(list(trainer.updates())), block)


def answer(step: Callable[[], int], block: int) -> None:
    """Time blocks of what `step` does, which returns how often it did it."""
    import torch

    def seconds(count: int) -> float:
        began, done = time.perf_counter(), 0
        while done < count:
            done += step()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / done

    seconds(WARM_UP)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(seconds(block), flush=True)


def start(tree: str, name: str, block: int) -> subprocess.Popen[str]:
    """The process of one tree."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve())}
    command = [sys.executable, __file__, "--work", name, "--block", str(block)]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line a process prints that is an answer."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready" or line[:1].isdigit():
            return line.strip()
    raise SystemExit(f"a tree's process ended: {process.wait()}")


def compare(trees: list[str], name: str, rounds: int, block: int) -> None:
    """Print the medians of both trees and the ratio of rounds."""
    processes = [start(tree, name, block) for tree in trees]
    for process in processes:
        line_of(process)
    times: list[list[float]] = []
    for number in range(rounds):
        seconds = [0.0, 0.0]
        for index in (0, 1) if number % 2 == 0 else (1, 0):
            assert processes[index].stdin is not None
            print("go", file=processes[index].stdin, flush=True)
            seconds[index] = float(line_of(processes[index]))
        times.append(seconds)
    for process in processes:
        process.kill()
        process.wait()
    old, new = (statistics.median(seconds) * 1e3 for seconds in zip(*times, strict=True))
    ratios = sorted(after / before for before, after in times)
    spread = f"{ratios[0]:.3f}–{ratios[-1]:.3f}"
    median = statistics.median(ratios)
    print(f"| {name} | {old:.3f} | {new:.3f} | {median:.3f} | {spread} | {rounds} × {block} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", nargs="?", help="source folder of the old tree")
    parser.add_argument("new", nargs="?", help="source folder of the new tree")
    parser.add_argument(
        "names",
        nargs="*",
        default=["copy-small", "text-small"],
        help=f"as in rmt bench --list; also {', '.join(OTHERS)}",
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--block", type=int, default=10, help="updates of a block")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.block)
        return
    if not (options.old and options.new):
        raise SystemExit("two_trees.py needs two source folders: OLD/src NEW/src")
    print("| configuration | old, ms | new, ms | median ratio | range | rounds × updates |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in options.names:
        compare([options.old, options.new], name, options.rounds, options.block)


if __name__ == "__main__":
    main()
