"""How far a reader walks: the files of rmt behind one update, one streamed segment, one wrapped forward.

A profile hook notes every call of a function of the package. `files` counts the files of these functions,
`switches` how often a call is in another folder of the package than the call before it. What is done once
(imports, first calls) happens before the hook is set. `python benchmarks/walks.py` prints a table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

import rmt

SOURCE = str(Path(rmt.__file__).parent) + os.sep


class Walk(NamedTuple):
    """What a call went through."""

    files: int
    switches: int
    calls: int


def walk(work: Callable[[], Any]) -> Walk:
    """The walk of one call, after one that is not counted."""
    work()
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            files.append(frame.f_code.co_filename.removeprefix(SOURCE))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    folders = [file.split(os.sep)[0] for file in files]
    switches = sum(before != after for before, after in pairwise(folders))
    return Walk(len(set(files)), switches, len(files))


def update() -> Callable[[], Any]:
    """An update of a small RMT on copy, three segments, on a CPU."""
    from rmt.experiments.recipe import resolve
    from rmt.train.config import build_task
    from rmt.train.trainer import Trainer

    config = resolve({"task": {"name": "copy"}, "device": "cpu"})
    trainer = Trainer(config, build_task(config.task))
    return lambda: list(trainer.updates())


def streamed_segment() -> Callable[[], Any]:
    """A whole segment fed to a session."""
    model = rmt.SegmentModel(rmt.presets.rmt(memory=4, vocabulary=16)).eval()
    session = rmt.Session(model, segment_length=8)
    tokens = torch.randint(16, (1, 8))
    return lambda: session.feed(tokens)


def wrapped_forward() -> Callable[[], Any]:
    """A text of two segments through a wrapped GPT-2 with its head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    base = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=32, n_embd=8, n_layer=1, n_head=1))
    model = rmt.add_memory(base.eval(), memory=2, segment_length=8, kind="tokens")
    tokens = torch.randint(16, (1, 16))
    return lambda: model(input_ids=tokens)


WALKS = {
    "one update on a CPU": update,
    "one streamed segment": streamed_segment,
    "one wrapped forward pass": wrapped_forward,
}

if __name__ == "__main__":
    print("| walk | files | switches between folders | calls |\n| --- | --- | --- | --- |")
    for name, build in WALKS.items():
        measured = walk(build())
        print(f"| {name} | {measured.files} | {measured.switches} | {measured.calls} |")
