"""The original code beside ours in one run: milliseconds of a training step, and their ratio.

    git clone https://github.com/booydar/LM-RMT
    python benchmarks/original.py LM-RMT                      all configurations, on a GPU
    python benchmarks/original.py LM-RMT copy-24-9x8          one of them
    python benchmarks/original.py LM-RMT --device cpu --tiny  whether it runs, anywhere

The original code is not part of this repository; its model is imported from the checkout and called as its
training scripts call it. Both have the same sizes, batches and segments and learn from the same data. A step
is forward, backward, clipping and Adam (ours: as the recipe says); dropout is 0.1 there, as always, and none
here. On text, the original counts the loss of one segment in a step and ours that of all of them: the last
column of the table is for as many losses. Their data lie on the device before the clock starts, ours do not.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import shlex
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from rmt.bench.measure import WARM_UP, Row, alone, block_times, peak_memory, spread, training
from rmt.bench.report import record, table
from rmt.cli.bench import Subject, subject
from rmt.config import to_dict
from rmt.store import write_json, write_whole
from rmt.text.lanes import Lanes
from rmt.train.log import environment

NAMES = ("copy-24-6x12", "copy-24-9x8", "enwik8-relative", "wt103-relative")
TINY = {
    "model": {"layers": 1, "heads": 1, "head_width": 4, "width": 8, "inner_width": 8},
    "train": {"batch": 2},
}
# of the original's runs: dropout of everything but attention, largest norm of the gradient, weights at first
DROPOUT, CLIP, DEVIATION, LEARNING_RATE = 0.1, 0.25, 0.02, 1e-4
BATCHES = 8  # drawn before the clock starts, then used in turn

Segment = tuple[Tensor, Tensor]  # tokens and targets, both time-major (L, B)
Loss = Callable[[], Tensor]


class Measured(NamedTuple):
    """A row, and how many of its updates count as many losses as one of ours."""

    row: Row
    updates: int


def original_model(checkout: Path) -> type:
    """The class of the original's model."""
    home = checkout / "pytorch"
    if not (home / "mem_transformer.py").exists():
        raise SystemExit(f"{checkout} is no checkout of LM-RMT: it has no pytorch/mem_transformer.py")
    sys.path[:0] = [str(home), str(home / "utils")]
    with patch.object(torch.version, "cuda", torch.version.cuda or "0.0"):  # it asks, also without a GPU
        model: type = importlib.import_module("mem_transformer").MemTransformerLM
    return model


def build(model_class: type, measured: Subject, device: torch.device) -> Any:
    """The original's model with the sizes of ours; it leaves part of its weights uninitialised."""
    model = measured.config.model
    torch.manual_seed(measured.config.seed)
    built = model_class(
        n_token=model.vocabulary,
        n_layer=model.layers,
        n_head=model.heads,
        d_model=model.width,
        d_head=model.head_width,
        d_inner=model.inner_width,
        dropout=DROPOUT,
        dropatt=0.0,
        tgt_len=measured.task.tokens_per_segment(measured.config.task.segments),
        ext_len=0,
        mem_len=0,
        num_mem_tokens=model.memory.size,
        tie_projs=[False] + [True] * len(model.cutoffs),
        cutoffs=list(model.cutoffs),
    )
    for name, parameter in built.named_parameters():
        if name != "mem_tokens":
            torch.nn.init.normal_(parameter, 1.0 if name.endswith("layer_norm.weight") else 0.0, DEVIATION)
    return built.train().to(device)


def initial_memory(model: Any, batch: int) -> Tensor:
    memory: Tensor = model.mem_tokens.repeat(1, batch, 1)  # (M, B, D)
    return memory


def sequence_loss(model: Any, measured: Subject, device: torch.device) -> Loss:
    """As train_synthetic.py: segments in order, never cut, the loss of the answer."""
    config, task = measured.config, measured.task
    batches = [task.fresh(config.train.batch, number, config.seed) for number in range(BATCHES)]
    answer = int(batches[0].loss_mask[0].sum())
    length = task.tokens_per_segment(config.task.segments)
    drawn = cycle([time_major(batch.tokens, batch.targets, device) for batch in batches])

    def loss() -> Tensor:
        tokens, targets = next(drawn)
        memory, losses = initial_memory(model, tokens.shape[1]), []
        for part, wanted in zip(tokens.split(length), targets.split(length), strict=True):
            memory, part_losses = model(part, wanted, mem_tokens=memory)[:2]
            losses.append(part_losses)
        return torch.cat(losses)[-answer:].float().mean()

    return loss


def lane_loss(model: Any, measured: Subject, device: torch.device) -> Loss:
    """As train.py: the last segments again, from the newest memory on, then a new one, whose loss counts."""
    config, length = measured.config, measured.task.segment_length
    depth = int(config.bptt.depth)
    segments = endless(measured, length, device)
    past: deque[Segment] = deque(maxlen=depth)
    memory = initial_memory(model, config.train.batch)

    def loss() -> Tensor:
        nonlocal memory
        current = memory
        for tokens, targets in past:
            current = model(tokens, targets, mem_tokens=current)[0]
        tokens, targets = next(segments)
        current, losses = model(tokens, targets, mem_tokens=current)[:2]
        past.append((tokens, targets))
        memory = current.detach()
        return losses.float().mean()

    return loss


def endless(measured: Subject, length: int, device: torch.device) -> Iterator[Segment]:
    """Segments of the same text that ours learns from, on the device, over and over."""
    lanes = Lanes(measured.task.corpus.tokens("train"), measured.config.train.batch)
    count = min((lanes.length - 1) // length, BATCHES)
    drawn = [map(torch.from_numpy, lanes.segment(index, length)) for index in range(count)]
    return cycle([time_major(tokens, targets, device) for tokens, targets in drawn])


def time_major(tokens: Tensor, targets: Tensor, device: torch.device) -> Segment:
    """(B, L) as the original wants it, (L, B)."""
    return tokens.t().contiguous().to(device), targets.t().contiguous().to(device)


LOSSES: dict[str, Callable[[Any, Subject, torch.device], Loss]] = {
    "sequences": sequence_loss,
    "lanes": lane_loss,
}


def precisions(device: torch.device) -> dict[str, AbstractContextManager[Any]]:
    """What the original is measured in: as it is, and in bfloat16 where torch sees fit."""
    plain = "tf32" if device.type == "cuda" else "float32"
    return {plain: nullcontext(), "bf16": torch.autocast(device.type, torch.bfloat16)}


def theirs(model_class: type, measured: Subject, device: torch.device, steps: int) -> Iterator[Measured]:
    """The original's step in each precision."""
    config = measured.config
    lanes = measured.task.layout == "lanes"
    updates = int(config.bptt.depth) + 1 if lanes else 1
    tokens = config.train.batch * (measured.task.segment_length if lanes else measured.task.total_length)
    for precision, products in precisions(device).items():
        with alone(measured.name):
            torch.set_float32_matmul_precision("high")
            step = training_step(build(model_class, measured, device), measured, products, device)
            for _ in range(WARM_UP):
                step()
            times = spread(block_times(step, steps, device))
            row = Row(measured.name, f"original {precision}", times, tokens, peak=peak_memory(device))
            yield Measured(row, updates)


def training_step(
    model: Any, measured: Subject, products: AbstractContextManager[Any], device: torch.device
) -> Callable[[], int]:
    """A step of the original; returns how many it was."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    loss_of = LOSSES[measured.task.layout](model, measured, device)

    def step() -> int:
        model.zero_grad()
        with products:
            loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return 1

    return step


def ours(measured: Subject, device: torch.device, steps: int) -> Measured:
    """Our step, as `rmt bench` measures it."""
    way = "auto" if device.type == "cuda" else "off"
    with alone(measured.name):
        return Measured(
            training(measured.name, replace(measured.config, compile=way), measured.task, steps), 1
        )


COLUMNS = ("configuration", "original, ms", "ours, ms", "times as fast", "for as many losses")


def cells(measured: Sequence[Measured]) -> list[str]:
    """One configuration: every precision of the original, and ours, the last."""
    *originals, mine = measured
    milliseconds = [f"{1000 * each.row.step.median:.2f} {each.row.way.split()[-1]}" for each in originals]
    quickest = min(originals, key=lambda each: each.row.step.median)
    ratio = quickest.row.step.median / mine.row.step.median
    return [
        mine.row.configuration,
        ", ".join(milliseconds),
        f"{1000 * mine.row.step.median:.2f}",
        f"{ratio:.1f}",
        f"{ratio * quickest.updates:.1f}",
    ]


def commit_of(checkout: Path) -> str:
    if not (checkout / ".git").exists():
        return "unknown"
    git = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write(options: argparse.Namespace, subjects: Sequence[Subject], groups: list[list[Measured]]) -> Path:
    """The result file, as those of `rmt bench`, and the table beside it."""
    today = datetime.date.today().isoformat()
    path = Path(options.out) / f"{today}-original.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = environment(torch.device(options.device))
    original = {"repository": "booydar/LM-RMT", "commit": commit_of(options.checkout)}
    rows = [{**record(each.row), "updates": each.updates} for group in groups for each in group]
    call = shlex.join(["python", *sys.argv])
    configurations = {each.name: to_dict(each.config) for each in subjects}
    numbers = {"date": today, "environment": about, "command": call, "original": original}
    write_json(path, {**numbers, "configurations": configurations, "rows": rows})
    words = ", ".join(f"{key} {value}" for key, value in about.items())
    head = (
        f"# The original code beside ours\n\n{today}, {words}; LM-RMT {original['commit']}.\n\n    {call}\n"
    )
    write_whole(path.with_suffix(".md"), f"{head}\n{table(COLUMNS, map(cells, groups))}\n")
    return path


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a clone of booydar/LM-RMT")
    parser.add_argument("names", nargs="*", default=NAMES, help=f"of {', '.join(NAMES)}")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--updates", type=int, default=50, help="timed, in five blocks")
    parser.add_argument("--tiny", action="store_true", help="1 layer × 8, batch 2, five updates")
    parser.add_argument("--out", default="benchmarks", help="folder of the result file")
    options = parser.parse_args(argv)
    device, model_class = torch.device(options.device), original_model(options.checkout)
    print(" | ".join(COLUMNS))
    steps, groups, subjects = 5 if options.tiny else options.updates, [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            measured = subject(name, TINY if options.tiny else {}, options.device, Path(folder))
            subjects.append(measured)
            groups.append([*theirs(model_class, measured, device, steps), ours(measured, device, steps)])
            print(" | ".join(cells(groups[-1])), flush=True)
            path = write(options, subjects, groups)
    print(f"written: {path}")


if __name__ == "__main__":
    main()
