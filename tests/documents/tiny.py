"""A fine-tuning run of a second: a tiny BERT with dropout, made documents, and how ends are compared."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import Columns, load_corpus
from rmt.documents.finetune import finetune
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain
from tests.train.runs import Watcher

# evaluated, logged and begun anew at different steps
SETTINGS: dict[str, Any] = {
    "segments": 2,
    "memory": 2,
    "segment_length": 8,
    "epochs": 2.6,
    "batch": 4,
    "at_once": 2,
    "lr": 3e-4,
    "seed": 1,  # the second evaluation is the best
    "evaluate_every": 3,
    "patience": 4,
    "device": "cpu",
}
TIMES = ("seconds", "environment")


class FinetuneWatcher(Watcher):
    """Keeps what a fine-tuning run tells."""

    def begin(self, steps: int) -> None: ...


class Signaller(FinetuneWatcher):
    """Raises a signal when it hears of a step: the run is asked to stop behind the next one."""

    def __init__(self, step: int):
        super().__init__()
        self.step = step

    def evaluated(self, record: dict[str, Any]) -> None:
        if record["step"] == self.step:
            signal.raise_signal(signal.SIGTERM)


def write_backbone(folder: Path, **settings: Any) -> Path:
    """A tiny BERT with random weights, dropout and a tokenizer of a few words."""
    dropout = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    model = plain("bert", "Model", **{"vocab_size": len(tokenizer()), **dropout, **settings})
    model.float().save_pretrained(folder / "bert")
    tokenizer().save_pretrained(folder / "bert")
    return folder / "bert"


def write_documents(file: Path, count: int = 24) -> Path:
    """Texts of one segment or two, whose first word is their label."""
    draw = random.Random(0)
    rows = [
        {
            "text": f"{word} {' '.join(draw.choices(['the', 'film', 'was'], k=draw.randint(2, 11)))}",
            "label": word,
        }
        for word in ("good", "bad") * (count // 2)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def finetune_words(folder: Path, out: str, **settings: Any) -> list[str]:
    """The words of `rmt finetune` on what `write_backbone` and `write_documents` have left in a folder."""
    flags = {"backbone": folder / "bert", **SETTINGS, **settings, "out": folder / out}
    return [
        *("finetune", str(folder / "documents.jsonl")),
        *(word for name, value in flags.items() for word in (f"--{name}", str(value))),
    ]


def tiny_finetune(
    folder: Path, out: str, watcher: Any = None, restart: bool = False, **settings: Any
) -> dict[str, Any]:
    """The result of such a run in this process."""
    torch.set_default_dtype(torch.float32)
    config = FinetuneConfig(
        data=str(folder / "documents.jsonl"), backbone=str(folder / "bert"), **{**SETTINGS, **settings}
    )
    corpus = load_corpus(config.data, Columns())
    return finetune(config, corpus, folder / out, watcher or FinetuneWatcher(), restart)[0]


def finetune_end(run: Path) -> dict[str, Any]:
    """All that two runs with one end have in common: everything but times."""
    result = json.loads((run / "result.json").read_text())
    return {
        "files": sorted(str(path.relative_to(run)) for path in run.rglob("*")),
        "weights": {
            name: tensor.numpy().tobytes()
            for name, tensor in load_file(run / "model" / "model.safetensors").items()
        },
        "metrics": (run / "metrics.jsonl").read_text(),
        "config": (run / "config.yaml").read_text(),
        "result": {name: value for name, value in result.items() if name not in (*TIMES, "sha256")},
    }
