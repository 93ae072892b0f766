"""Table 3: documents classified by pretrained models with memory, in one to four segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmt.errors import DataError
from rmt.experiments.cells import PlannedCell
from rmt.experiments.settings import Settings

RATES = (1e-5, 5e-5, 1e-4)  # the paper's own
MEMORY = 10
SEGMENTS = (1, 2, 3, 4)


def require_articles(folder: str) -> None:
    """Raise where a folder has no articles, in the words of rmt reproduce."""
    from rmt.documents.hyperpartisan import load_hyperpartisan

    try:
        load_hyperpartisan(folder)
    except DataError as error:
        raise DataError(str(error).replace("path=", "data=", 1)) from None


def table_3(data: str, backbones: Sequence[str], seeds: int = 3) -> Iterator[PlannedCell]:
    """Hyperpartisan news: the plain model on one segment, then with memory on two, three and four."""
    for backbone in backbones:
        for segments in SEGMENTS:
            settings: Settings = {
                "data": "hyperpartisan",
                "path": data,
                "backbone": backbone,
                "segments": segments,
                "memory": MEMORY if segments > 1 else 0,
            }
            yield PlannedCell(
                name=f"hyperpartisan-{backbone.rstrip('/').rpartition('/')[2]}-{segments}",
                exhibits=("table-3",),
                command="finetune",
                settings=settings,
                rate_of="lr",
                rates=RATES,
                seeds=seeds,
            )
