"""The paper's comparisons as lists of runs, each a name and settings: what `rmt reproduce NAME` trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rmt.errors import ConfigError
from rmt.experiments.recipe import Settings, merge

OTHERS = ("transformer_xl", "memory_transformer", "baseline")  # the models that RMT is compared with
TARGET: Settings = {"train": {"target": 0.995}}  # accuracy at which the runs of RMT stop
RETRIEVAL: Settings = {
    "size": "paper",
    "model": {"init": "scaled"},
    "optimizer": {"matrix_lr": 0.005},
    "train": {"batch": 512, "evaluate_every": 250},
}
PAIRS: Settings = {"curriculum": {"over": "length", "start": 2, "growth": 1.2}}  # key-value pairs
QUADRATIC: Settings = {
    "task": {"name": "quadratic", "segments": 6},
    "size": "paper",
    "model": {"positions": "rotary"},
    "precision": "bf16-mixed",
}
TEXT: Settings = {
    "task": {"name": "text"},
    "scale": "gpu",
    "bptt": {"schedule": "sliding"},
    "precision": "bf16-mixed",
    "train": {"evaluate_batch": 64},
}
TEXTS = {  # the corpus by its name: size, tokens per segment, lanes
    "enwik8": ("enwik8-base", 64, 64),
    "wikitext-2": ("wt103-base", 32, 128),
    "wikitext-103": ("wt103-base", 150, 60),
}


class Run(NamedTuple):
    """A run of a suite: the name of its folder and what it sets, nested as in a config file."""

    name: str
    settings: Settings

    def over(self, settings: Settings) -> Run:
        """The same run with other settings over its own."""
        return Run(self.name, merge(self.settings, settings))


def copies(data: str, steps: int) -> Iterator[Run]:
    """Copy and reverse of 24 symbols, Fig. 3: five seeds of RMT, one of the others."""
    for task, counts, budget in (("copy", (3, 6, 9), 1000), ("reverse", (2, 4, 6), 1500)):
        for count in counts:
            common: Settings = {
                "task": {"name": task, "length": 24, "segments": count},
                "size": "paper",
                "train": {"steps": steps or budget},
            }
            for seed in range(5):
                yield Run(f"{task}-{count}-rmt-{seed}", merge(common, TARGET, {"seed": seed}))
            yield Run(f"{task}-{count}-rmt-depth-0", merge(common, {"bptt": {"depth": 0}}))
            for model in OTHERS:
                yield Run(f"{task}-{count}-{model}", merge(common, {"preset": model}))


def retrieval(data: str, steps: int) -> Iterator[Run]:
    """Associative retrieval in 2, 3 and 5 segments: three seeds of RMT, one of the others."""
    for count, size in ((2, 5), (3, 3), (5, 2)):
        common = merge(
            RETRIEVAL,
            {"task": {"name": "retrieval", "segments": count}, "train": {"steps": steps or 5000}},
        )
        # where 5,000 steps in float32 left two seeds of three below 0.99
        longer: Settings = (
            {"train": {"steps": steps or 8000}, "precision": "bf16-mixed"} if count == 3 else {}
        )
        memory: Settings = {"model": {"memory": {"size": size}}}
        for seed in range(3):
            settings = merge(common, longer, PAIRS, memory, TARGET, {"seed": seed})
            yield Run(f"retrieval-{count}-rmt-{seed}", settings)
        others: dict[str, Settings] = {
            "transformer_xl": merge(PAIRS, {"model": {"cache": {"size": size}}}),
            "memory_transformer": memory,
            "baseline": {},
        }
        for model, settings in others.items():
            yield Run(f"retrieval-{count}-{model}", merge(common, settings, {"preset": model}))


def quadratic(data: str, steps: int) -> Iterator[Run]:
    """Quadratic equations in 6 segments: three seeds of RMT, one of the others."""
    common = merge(QUADRATIC, {"train": {"steps": steps or 5000}})
    for seed in range(3):
        settings = merge(common, {"train": {"evaluate_every": 1000}, "seed": seed})
        yield Run(f"quadratic-rmt-{seed}", settings)
    for model in OTHERS:
        settings = merge(common, {"train": {"evaluate_every": 2500}, "preset": model})
        yield Run(f"quadratic-{model}", settings)


def text(data: str, steps: int) -> Iterator[Run]:
    """Language models on `data`: one update per segment for all, so equal updates and equal tokens."""
    if not data:
        raise ConfigError("data is missing: name a corpus or a prepared folder with --data")
    known = next((name for name in TEXTS if name in data), "enwik8")
    size, length, lanes = TEXTS[known]
    steps = steps or 1000
    budget = {"batch": lanes, "steps": steps, "evaluate_every": max(1, steps // 2), "save_every": steps}
    common = merge(TEXT, {"task": {"data": data, "segment_length": length}, "size": size, "train": budget})
    deep: Settings = {"bptt": {"depth": 2}}
    models: dict[str, Settings] = {
        "baseline": {"preset": "baseline"},
        "memory_transformer": {"preset": "memory_transformer"},
        "transformer_xl": {"preset": "transformer_xl"},
        "rmt-depth-0": {"preset": "rmt", "bptt": {"depth": 0}},
        "rmt-depth-2": {"preset": "rmt", **deep},
        "transformer_xl_rmt": {"preset": "transformer_xl_rmt", **deep},
    }
    for recipe in ("modern", "paper"):
        for name, settings in models.items():
            yield Run(f"{known}-{recipe}-{name}", merge(common, settings, {"recipe": recipe}))
    stored = merge(common, models["rmt-depth-2"], {"recipe": "paper", "bptt": {"replay_from": "stored"}})
    yield Run(f"{known}-paper-rmt-depth-2-stored", stored)


SUITES: dict[str, Callable[[str, int], Iterator[Run]]] = {
    "copies": copies,
    "retrieval": retrieval,
    "quadratic": quadratic,
    "text": text,
}
