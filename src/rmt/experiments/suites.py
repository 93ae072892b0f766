"""What `rmt reproduce NAME --scale SCALE` trains: the cells of the paper's figures and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rmt.errors import ConfigError, unknown
from rmt.experiments import suites_gpu, suites_tiny
from rmt.experiments.cells import PlannedCell, joined
from rmt.experiments.made_text import MADE_TEXT
from rmt.experiments.paper import OF_TEXT
from rmt.experiments.suites_documents import table_3
from rmt.experiments.suites_paper import of_rows

EXHIBITS = (
    "figure-3",
    "figure-4",
    "figure-5",
    "figure-8",
    "table-1",
    "table-2",
    "table-3",
    "table-4",
    "table-5",
)
ALL = "all"
Scale = Literal["tiny", "gpu", "paper"]
Suite = Callable[[str], Iterable[PlannedCell]]  # of the data's name or folder; empty = the usual

SCALES: Mapping[str, Mapping[str, Suite]] = {
    "tiny": {
        "figure-3": suites_tiny.figure_3,
        "figure-4": suites_tiny.figure_4,
        "figure-8": suites_tiny.figure_8,
        **dict.fromkeys(OF_TEXT, suites_tiny.texts),
    },
    "gpu": {
        "figure-3": suites_gpu.figure_3,
        "figure-4": suites_gpu.figure_4,
        "figure-5": suites_gpu.figure_5,
        "figure-8": suites_gpu.figure_8,
        "table-1": suites_gpu.table_1,
        "table-2": suites_gpu.table_2,
        "table-4": suites_gpu.table_4,
        "table-5": suites_gpu.table_5,
    },
    "paper": {name: of_rows(name) for name in EXHIBITS if name != "table-3"},
}
LEFT_OUT: Mapping[str, Mapping[str, str]] = {"tiny": suites_tiny.LEFT_OUT, "gpu": {}, "paper": {}}
NO_BACKBONES = "it takes pretrained models: --backbones NAME,NAME --data FOLDER"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for."""

    name: str  # a figure, a table, or all
    scale: Scale
    data: str = ""  # of texts, or of table-3; empty = the usual
    backbones: tuple[str, ...] = ()
    seeds: int | None = None  # of every cell; none = its own
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.name not in (*EXHIBITS, ALL):
            raise unknown("figure or table", self.name, (*EXHIBITS, ALL))
        if self.name == ALL and self.data:
            raise ConfigError(f"data={self.data} is for one figure or table: name that instead of all")
        if self.data and self.name not in (*OF_TEXT, "table-3"):
            raise ConfigError(f"data={self.data} has no effect on {self.name}; leave it out")
        if self.steps is not None and self.name == "table-3":
            raise ConfigError(
                f"steps={self.steps} has no effect on table-3, whose budget is in epochs; leave it out"
            )
        if self.backbones and self.name != "table-3":
            raise ConfigError(
                f"backbones={','.join(self.backbones)} have no effect on {self.name}: use table-3"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return EXHIBITS if self.name == ALL else (self.name,)


class Ordered(NamedTuple):
    """The cells of an order, and why parts of it have none."""

    cells: list[PlannedCell]
    left_out: dict[str, str]


def plan(order: Order) -> Ordered:
    """Every cell once, however many figures it is part of; an order of nothing is an error."""
    left_out = dict(reasons(order))
    cells = joined(cell for name in order.names if name not in left_out for cell in cells_of(name, order))
    if not cells:
        raise ConfigError(f"{order.name} has nothing at scale {order.scale}: {left_out[order.name]}")
    return Ordered([budgeted(cell, order) for cell in cells], left_out)


def reasons(order: Order) -> Iterator[tuple[str, str]]:
    for name in order.names:
        if name in LEFT_OUT[order.scale]:
            yield name, LEFT_OUT[order.scale][name]
        elif name == "table-3" and not (order.backbones and order.data):
            yield name, NO_BACKBONES


def cells_of(name: str, order: Order) -> Iterable[PlannedCell]:
    if name == "table-3":
        return table_3(order.scale, order.data, order.backbones)
    usual = MADE_TEXT if order.scale == "tiny" and name in OF_TEXT else ""
    return SCALES[order.scale][name](order.data or usual)


def budgeted(cell: PlannedCell, order: Order) -> PlannedCell:
    """A cell with the seeds and steps that were asked for."""
    if order.steps is not None and cell.command == "train":
        trials = cell.trial_steps if cell.trial_steps < order.steps else 0  # else a trial is a run
        cell = cell.over({"train": {"steps": order.steps}}).replaced(trial_steps=trials)
    return cell if order.seeds is None else cell.replaced(seeds=order.seeds)
