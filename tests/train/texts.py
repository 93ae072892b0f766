"""Text runs that take a second: a corpus of a hundred letters, and its lanes as cut by hand."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmt.config import from_dict
from rmt.experiments.recipe import merge
from rmt.text.files import FileSpan, Source, whole
from rmt.text.prepare import prepare_corpus
from rmt.train.config import RunConfig
from tests.train.runs import TINY

BATCH, LENGTH = 3, 4
DOCUMENTS = (10, 11, 14, 20, 16)  # their letters, 71 to train on
LANE = sum(DOCUMENTS) // BATCH  # two letters are left over
PASS = (LANE - 1) // LENGTH  # whole segments of a lane; two targets are left over
LETTERS = 8  # and one more token in the vocabulary, which memory can predict

MODELS = {
    "baseline": {"memory": {"size": 0}},
    "memory_transformer": {"memory": {"size": 2, "write": False, "recurrent": False}},
    "transformer_xl": {"memory": {"size": 0}, "cache": {"size": 5}},
    "rmt": {},
    "transformer_xl_rmt": {"cache": {"size": 5}},
}
TEXT: dict[str, Any] = {
    **TINY,
    "task": {"name": "text", "segment_length": LENGTH},
    "model": {**TINY["model"], "vocabulary": LETTERS + 1, "layers": 2},
    "bptt": {"schedule": "chunked", "depth": 1},
    "train": {
        "batch": BATCH,
        "steps": 12,
        "evaluate_every": 4,
        "evaluate_batch": 2,
        "save_every": 3,
        "log_every": 1,
    },
}


def write_corpus(folder: Path, seed: int = 0) -> Path:
    """A prepared corpus of random letters; its training split has several documents."""
    generator = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)

    def document(name: str, size: int) -> FileSpan:
        (folder / name).write_text("".join(generator.choices("abcdefgh", k=size)))
        return whole(folder / name)

    splits = {
        "train": [document(f"train_{place}", size) for place, size in enumerate(DOCUMENTS)],
        "valid": [document("valid", 31)],
        "test": [document("test", 40)],
    }
    return prepare_corpus(
        Source("letters", "bytes", splits, occurring=True), folder / "prepared", force=True
    ).folder


def text(data: Path, **groups: Any) -> RunConfig:
    """A tiny run on a prepared corpus, with other settings where given."""
    return from_dict(RunConfig, merge(TEXT, {"task": {"data": str(data)}}, groups))


def lanes_by_hand(data: Path, batch: int = BATCH) -> Tensor:
    """The training split as lanes, (B, T), read from its file."""
    tokens = np.fromfile(data / "train.bin", dtype="<u2").astype(np.int64)
    length = len(tokens) // batch
    return torch.stack([torch.from_numpy(tokens[row * length : (row + 1) * length]) for row in range(batch)])


def starts_anew(reset: int | str, place: int, row: int) -> bool:
    """Whether a row starts from the initial state at segment `place`, counted over all passes."""
    place %= PASS
    if place == 0:
        return True
    if reset == "document":
        first = row * LANE + place * LENGTH
        begins = np.cumsum([0, *DOCUMENTS[:-1]])
        return any(first <= begin < first + LENGTH for begin in begins)
    return reset != "never" and place % int(reset) == 0
