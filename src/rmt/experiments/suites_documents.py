"""Table 3: documents classified by pretrained models, with memory and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rmt.errors import DataError
from rmt.experiments.cells import PlannedCell
from rmt.experiments.settings import Settings

RATES = (1e-5, 5e-5, 1e-4)  # the paper's own
MEMORY = 10
IN_SEGMENTS: Mapping[str, tuple[int, ...]] = {"gpu": (4,), "paper": (2, 3, 4)}  # with memory, by scale
SEEDS = 5


def require_articles(folder: str) -> None:
    """Raise where a folder has no articles, in the words of rmt reproduce."""
    from rmt.documents.hyperpartisan import load_hyperpartisan

    try:
        load_hyperpartisan(folder)
    except DataError as error:
        raise DataError(str(error).replace("path=", "data=", 1)) from None


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
