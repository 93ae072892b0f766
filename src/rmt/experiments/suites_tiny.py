"""Scale `tiny`: minutes on two CPU cores, at sizes where the order of the models still shows.

2 layers × 64, sequences of 4 to 8 symbols. All texts are one made text, in which what a page began with
comes again: the order of models is to be seen there, none of the paper's numbers. Left out, because no
model learns them in such a budget: retrieval and quadratic equations. Words of a corpus are left out too.
"""

from __future__ import annotations

from collections.abc import Iterator

from rmt.experiments.cells import PlannedCell
from rmt.experiments.paper import OF_TEXT
from rmt.experiments.positions import MODELS, RECURRENT, Position, Texts
from rmt.experiments.settings import Settings, merge
from rmt.experiments.suites_gpu import label_of, text_settings

RATES = (0.01, 0.02, 0.04)  # of Muon; the middle one is the best of most cells, with either model
SHARED: Settings = {
    "train": {
        "steps": 250,
        "batch": 64,
        "evaluate_every": 125,
        "evaluate_samples": 500,
        "test_samples": 1000,
        "save_every": 50,
    },
    "threads": 1,
}
LEFT_OUT = {
    "table-1": "quadratic equations are not learned in a tiny budget",
    "table-3": "it takes pretrained models: --backbones NAME,NAME --data FOLDER, at another scale",
}


def position(exhibit: str, task: str, length: int, segments: int, seeds: int = 1) -> Position:
    return Position(
        exhibit=exhibit,
        task=task,
        length=length,
        segments=segments,
        shared=SHARED,
        rates=RATES,
        seeds=seeds,
        other_seeds=1,
    )


def figure_3(data: str) -> Iterator[PlannedCell]:
    """Copy of 4 symbols in 1, 3 and 6 segments; reverse in 4, beyond the reach of Transformer-XL's cache."""
    yield from position("figure-3", "copy", 4, 1).cells(("baseline",), 4)
    yield from position("figure-3", "copy", 4, 3, seeds=2).cells(MODELS, 4)
    yield from position("figure-3", "copy", 4, 6).cells(RECURRENT, 2)
    yield from position("figure-3", "reverse", 4, 4, seeds=2).cells(RECURRENT, 2)


def figure_4(data: str) -> Iterator[PlannedCell]:
    """Segments of 4 tokens with memory 4: copies of 4 symbols, and of 8."""
    yield from position("figure-4", "copy", 4, 3, seeds=2).cells(RECURRENT, 4)
    yield from position("figure-4", "copy", 8, 6).cells(RECURRENT, 4)


def figure_8(data: str) -> Iterator[PlannedCell]:
    """Copy of 4 symbols with memory of half a segment."""
    yield from position("figure-8", "copy", 4, 3).cells(RECURRENT, 2)


def texts(data: str) -> Iterator[PlannedCell]:
    """The made text in segments of 8 bytes: caches of 2 and 8, memory 1 and 4, depth 0 and 2."""
    settings: Settings = {
        "task": {"segment_length": 8},
        "bptt": {"schedule": "sliding", "depth": 0},
        "train": {"batch": 32, "steps": 250, "evaluate_every": 125, "save_every": 50, "evaluate_batch": 16},
    }
    shared = merge(text_settings(data, settings), {"threads": 1})
    models = Texts(exhibits=OF_TEXT, label=label_of(data), shared=shared, rates=RATES)
    yield models.cell("baseline")
    for cache in (2, 8):
        yield models.cell("transformer_xl", cache=cache)
    for memory, depth in ((1, 2), (4, 0), (4, 2)):
        yield models.cell("rmt", memory=memory, settings={"bptt": {"depth": depth}})
