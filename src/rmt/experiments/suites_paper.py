"""Scale `paper`: every published row with the settings it was trained with, recipe `paper`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmt.experiments.cells import PlannedCell
from rmt.experiments.paper import PublishedRow, exhibit_rows, paper_budget
from rmt.experiments.positions import MODELS, Position, Texts
from rmt.experiments.settings import Settings, merge
from rmt.experiments.suites_gpu import label_of, text_settings

SIZES = {"wikitext-103": "wt103-base", "enwik8": "enwik8-base"}
CORPORA = {"wikitext-103": "wikitext-103", "enwik8": "enwik8-204"}


def of_rows(exhibit: str) -> Callable[[str], Iterator[PlannedCell]]:
    """The cells of a figure or table: one for each of its rows that was trained for it."""

    def cells(data: str) -> Iterator[PlannedCell]:
        seen: set[str] = set()
        for row in exhibit_rows(exhibit):
            cell = sequence_cell(row, exhibit) if row.segments else text_cell(row, exhibit, data)
            if cell.name not in seen and not row.note.startswith("as the paper of"):
                seen.add(cell.name)
                yield cell

    return cells


def sequence_cell(row: PublishedRow, exhibit: str) -> PlannedCell:
    """A row of an algorithmic task."""
    task, _, length = row.task.partition("-")
    shared = merge({"size": "paper", "recipe": "paper"}, paper_budget(row))
    position = Position(
        exhibit=exhibit,
        task=task,
        length=int(length) if length else None,
        segments=row.segments,
        shared=shared,
        seeds=row.measured.runs if row.measured else 1,
    )
    if row.model not in MODELS:
        raise AssertionError(f"{row.model} is none of the algorithmic tasks' models")
    return position.cell(row.model, row.memory or row.cache)


def text_cell(row: PublishedRow, exhibit: str, data: str) -> PlannedCell:
    """A row of a language model; twice the steps are in its name."""
    corpus = data or CORPORA[row.task]
    settings: Settings = {
        "size": SIZES[row.task],
        "recipe": "paper",
        "task": {"segment_length": row.segment_length},
    }
    cache = row.cache
    if row.model == "transformer_xl_rmt":
        settings = merge(settings, {"train": {"memory_loss": 0.01}})
        cache += row.memory  # the recipe's cache has memory rows beside the tokens that the paper counts
    longer = "-2x-steps" if row.note.endswith("2x steps") else ""
    texts = Texts(
        exhibits=(exhibit,),
        label=f"{label_of(corpus)}-{row.segment_length}{longer}",
        shared=merge(text_settings(corpus, settings), paper_budget(row), {"bptt": {"depth": int(row.depth)}}),
        seeds=max(1, row.measured.runs) if row.measured else 1,
    )
    return texts.cell(row.model, memory=row.memory, cache=cache)
