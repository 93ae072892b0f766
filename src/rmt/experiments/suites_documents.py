"""Table 3: documents classified by pretrained models, with memory and without."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rmt.config import from_dict
from rmt.errors import DataError
from rmt.experiments.cells import PlannedCell
from rmt.experiments.settings import Settings

if TYPE_CHECKING:
    from rmt.documents.corpus import DocumentCorpus

RATES = (1e-5, 5e-5, 1e-4)  # the paper's own
MEMORY = 10
IN_SEGMENTS: Mapping[str, tuple[int, ...]] = {"gpu": (4,), "paper": (2, 3, 4)}  # with memory, by scale
SEEDS = 5


def articles(folder: str) -> DocumentCorpus:
    """The articles in a folder; an error is in the words of rmt reproduce."""
    from rmt.documents.hyperpartisan import load_hyperpartisan

    try:
        return load_hyperpartisan(folder)
    except DataError as error:
        raise DataError(str(error).replace("path=", "data=", 1)) from None


def most_updates(cell: PlannedCell) -> int:
    """How many updates all runs of a cell make, where none stops before its last epoch."""
    from rmt.documents.config import FinetuneConfig

    config = from_dict(FinetuneConfig, cell.settings)
    batches = math.ceil(len(articles(cell.settings["path"]).splits["train"]) / config.batch)
    runs = len(cell.rates) + cell.seeds - cell.reuses_trial
    return round(config.epochs * batches) * runs


def table_3(scale: str, data: str, backbones: Sequence[str]) -> Iterator[PlannedCell]:
    """Hyperpartisan news: the plain model on one segment, the mean of its answers to many, and memory."""
    in_segments = IN_SEGMENTS[scale]
    for backbone in backbones:
        shared: Settings = {"data": "hyperpartisan", "path": data, "backbone": backbone}
        name = f"hyperpartisan-{backbone.rstrip('/').rpartition('/')[2]}"
        yield document_cell(f"{name}-1", shared | {"segments": 1, "memory": 0})
        for segments in in_segments:
            yield document_cell(f"{name}-{segments}", shared | {"segments": segments, "memory": MEMORY})
        most = in_segments[-1]
        yield document_cell(f"{name}-{most}-mean", shared | {"segments": most, "memory": 0, "answer": "mean"})


def document_cell(name: str, settings: Settings) -> PlannedCell:
    return PlannedCell(
        name=name,
        exhibits=("table-3",),
        command="finetune",
        settings=settings,
        rate_of="lr",
        rates=RATES,
        seeds=SEEDS,
    )
