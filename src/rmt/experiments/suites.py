"""The paper's comparisons as lists of runs: what `rmt reproduce NAME` trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rmt.errors import ConfigError

SEEDS = range(5)
RETRIEVAL = "--model.init scaled --optimizer.matrix_lr 0.005 --batch 512 --train.evaluate_every 250"
PAIRS = "--curriculum.over length --curriculum.start 2 --curriculum.growth 1.2"
QUADRATIC = "--segments 6 --model.positions rotary --precision bf16-mixed"
TEXT = (
    "--scale gpu --schedule sliding --precision bf16-mixed --steps {steps} --train.evaluate_every {half} "
    "--train.save_every {steps} --train.evaluate_batch 64"
)
TEXTS = {  # the corpus by its name: size, tokens per segment, lanes
    "enwik8": ("enwik8-base", 64, 64),
    "wikitext-2": ("wt103-base", 32, 128),
    "wikitext-103": ("wt103-base", 150, 60),
}


class Run(NamedTuple):
    """A command `rmt train ARGUMENTS` and a short name for its folder."""

    name: str
    arguments: str


def copies(data: str, steps: int) -> Iterator[Run]:
    """Copy and reverse of 24 symbols, Fig. 3: five seeds of RMT, one of the others."""
    for task, counts, budget in (("copy", (3, 6, 9), 1000), ("reverse", (2, 4, 6), 1500)):
        for count in counts:
            common = f"{task} --size paper --length 24 --segments {count} --steps {steps or budget}"
            for seed in SEEDS:
                yield Run(f"{task}-{count}-rmt-{seed}", f"{common} --target 0.995 --seed {seed}")
            yield Run(f"{task}-{count}-rmt-depth-0", f"{common} --depth 0")
            for model in ("transformer_xl", "memory_transformer", "baseline"):
                yield Run(f"{task}-{count}-{model}", f"{common} --model {model}")


def retrieval(data: str, steps: int) -> Iterator[Run]:
    """Associative retrieval in 2, 3 and 5 segments: three seeds of RMT, one of the others."""
    for count, size in ((2, 5), (3, 3), (5, 2)):
        common = f"retrieval --size paper --segments {count} {RETRIEVAL}"
        longer = count == 3  # where 5,000 steps in float32 left two seeds of three below 0.99
        own = f"--steps {steps or 8000} --precision bf16-mixed" if longer else f"--steps {steps or 5000}"
        for seed in range(3):
            rmt = f"{common} {own} {PAIRS} --memory {size} --target 0.995 --seed {seed}"
            yield Run(f"retrieval-{count}-rmt-{seed}", rmt)
        common += f" --steps {steps or 5000}"
        xl = f"{common} {PAIRS} --model transformer_xl --cache {size}"
        yield Run(f"retrieval-{count}-transformer_xl", xl)
        prefixed = f"{common} --model memory_transformer --memory {size}"
        yield Run(f"retrieval-{count}-memory_transformer", prefixed)
        yield Run(f"retrieval-{count}-baseline", f"{common} --model baseline")


def quadratic(data: str, steps: int) -> Iterator[Run]:
    """Quadratic equations in 6 segments: three seeds of RMT, one of the others."""
    common = f"quadratic --size paper {QUADRATIC} --steps {steps or 5000}"
    for seed in range(3):
        yield Run(f"quadratic-rmt-{seed}", f"{common} --train.evaluate_every 1000 --seed {seed}")
    for model in ("transformer_xl", "memory_transformer", "baseline"):
        yield Run(f"quadratic-{model}", f"{common} --train.evaluate_every 2500 --model {model}")


def text(data: str, steps: int) -> Iterator[Run]:
    """Language models on `data`: one update per segment for all, so equal updates and equal tokens."""
    if not data:
        raise ConfigError("data is missing: name a corpus or a prepared folder with --data")
    known = next((name for name in TEXTS if name in data), "enwik8")
    size, length, lanes = TEXTS[known]
    steps = steps or 1000
    options = TEXT.format(steps=steps, half=max(1, steps // 2))
    common = f"text --data {data} --size {size} --task.segment_length {length} --batch {lanes} {options}"
    models = {
        "baseline": "--model baseline",
        "memory_transformer": "--model memory_transformer",
        "transformer_xl": "--model transformer_xl",
        "rmt-depth-0": "--model rmt --depth 0",
        "rmt-depth-2": "--model rmt --depth 2",
        "transformer_xl_rmt": "--model transformer_xl_rmt --depth 2",
    }
    for recipe in ("modern", "paper"):
        for name, model in models.items():
            yield Run(f"{known}-{recipe}-{name}", f"{common} --recipe {recipe} {model}")
    stored = f"{common} --recipe paper --model rmt --depth 2 --bptt.replay_from stored"
    yield Run(f"{known}-paper-rmt-depth-2-stored", stored)


SUITES: dict[str, Callable[[str, int], Iterator[Run]]] = {
    "copies": copies,
    "retrieval": retrieval,
    "quadratic": quadratic,
    "text": text,
}
