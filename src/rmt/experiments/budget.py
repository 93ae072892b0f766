"""What the cells of a report were given and what they took: updates, runs, time, hardware."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rmt.experiments.cells import WALL_SECONDS
from rmt.experiments.comparison import ComparedRow, Exhibits, Record
from rmt.experiments.paper import PublishedRow, exhibit_rows
from rmt.experiments.stretches import occupied, stretches_of
from rmt.train.folder import is_number

MOST_BUDGETS = 4  # that are told one by one
MEASURED = {
    "table-3": "Measured on 65 articles that no model learned from. The paper's own test split, of whose 65 "
    "articles 58 are in its training or validation set, stands beside it as the paper's metric."
}
ALONE = 0.95  # of the time of cells, from which on they were at work one after the other


class Budget(NamedTuple):
    """Updates, of how much each, by which recipe; or passes, where runs end when they get no better."""

    updates: int
    batch: int
    of: str  # what a batch has: a sequence, a lane, a document
    recipe: str
    passes: float = 0.0

    def __str__(self) -> str:
        amount = f"{self.updates:,} update{'s' * (self.updates != 1)}"
        if self.passes:
            amount = f"at most {self.passes:g} pass{'es' * (self.passes != 1)} in updates"
        batch = f" of {counted(self.batch, self.of)}" if self.batch else ""
        return f"{amount}{batch}, recipe {self.recipe}"


class DeviceTime(NamedTuple):
    """What cells took on their devices; not whole where a record counts its trainings only."""

    seconds: float  # of all cells
    is_whole: bool = True
    occupied: float | None = None  # seconds in which some cell was at work, where all records tell

    def __str__(self) -> str:
        if not self.is_whole:
            return f"≥ {duration(self.seconds)} (trainings only)"
        if self.occupied is None or self.occupied > ALONE * self.seconds:
            return duration(self.seconds)
        return f"{duration(self.occupied)} ({duration(self.seconds)} of cells, several at a time)"


def budget_of(row: ComparedRow) -> Budget:
    if row.is_documents:
        config = row.record["config"]
        return Budget(0, config["batch"], "document", row.recipe, config["epochs"])
    batch = row.settings("train").get("batch", 0)
    return Budget(row.updates, batch, "sequence" if row.segments else "lane", row.recipe)


def budgets(rows: Iterable[ComparedRow]) -> str:
    """The budgets of rows, the usual first, each with the tasks that had it where they differ."""
    tasks: dict[Budget, list[str]] = defaultdict(list)
    for row in rows:
        tasks[budget_of(row)].append(row.task)
    usual = sorted(tasks, key=lambda budget: -len(tasks[budget]))
    if len(usual) == 1:
        return str(usual[0])
    if len(usual) > MOST_BUDGETS:
        return f"mostly {usual[0]}; in all {ranged(usual)}"
    return "; ".join(f"{budget} ({', '.join(dict.fromkeys(tasks[budget]))})" for budget in usual)


def ranged(budgets: Sequence[Budget]) -> str:
    """Many budgets in few words; those in passes one by one."""
    in_updates = [budget for budget in budgets if not budget.passes]
    batches = between(budget.batch for budget in in_updates if budget.batch)
    updates = between(budget.updates for budget in in_updates)
    text = f"{updates} updates" + (f" of {batches}" if batches else "")
    return "; ".join([*([text] if updates else []), *(str(budget) for budget in budgets if budget.passes)])


def papers_budget(rows: Iterable[PublishedRow]) -> str:
    """Updates and batches of the paper's own rows; nothing where they are not known."""
    known = [row for row in rows if row.steps]
    if not known:
        return ""
    batches = between(row.batch for row in known if row.batch)
    return f"the paper: {between(row.steps for row in known)} updates" + (f" of {batches}" if batches else "")


def between(numbers: Iterable[int]) -> str:
    known = sorted(set(numbers))
    if not known:
        return ""
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,} to {known[-1]:,}"


def exhibit_budget(name: str, rows: Sequence[ComparedRow]) -> str:
    """A sentence below the title of a figure or table."""
    parts = (budgets(rows), papers_budget(exhibit_rows(name)))
    devices = names((run for row in rows for run in row.runs), "device")
    time = f"Device time {device_time(records_of(rows))}, on {devices}."
    amounts = "; ".join(filter(None, parts))
    return " ".join(filter(None, (f"{amounts[:1].upper()}{amounts[1:]}.", time, MEASURED.get(name))))


def summary(exhibits: Exhibits) -> str:
    """A paragraph on all cells: how many, how long, on what, from which source."""
    rows = each_once(exhibits)
    runs = [run for row in rows for run in row.runs]
    trials = sum(map(further_trials, rows))
    tried = f" and {counted(trials, 'further trial')} of learning rates" if trials else ""
    published = papers_budget(line for name in exhibits for line in exhibit_rows(name))
    return (
        f"{counted(len(rows), 'cell')} with {counted(len(runs), 'run')}{tried}: {budgets(rows)}"
        f"{f'; {published}' if published else ''}. Device time {device_time(records_of(rows))}, "
        f"on {names(runs, 'device')}; source {names(runs, 'source')}."
    )


def further_trials(row: ComparedRow) -> int:
    """Trials of rates beside the runs: that of the chosen rate is the run of seed 0, where it is as long."""
    trials = len(row.record["trials"])
    return trials - (trials > 0 and not row.record["cell"]["trial_steps"])


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def each_once(exhibits: Exhibits) -> list[ComparedRow]:
    """The rows of all figures and tables, each cell once."""
    return list({id(row.record): row for rows in exhibits.values() for row in rows}.values())


def records_of(rows: Iterable[ComparedRow]) -> list[Record]:
    return [row.record for row in rows]


def names(runs: Iterable[Mapping[str, Any]], name: str) -> str:
    return ", ".join(sorted({str(run[name]) for run in runs}))


def device_time(records: Iterable[Record]) -> DeviceTime:
    """All time on devices, as far as it was measured; where cells shared one, also how long they had it."""
    records = list(records)
    times, stretches = [time_of(record) for record in records], [stretches_of(record) for record in records]
    known = [of_record for of_record in stretches if of_record is not None]
    shared = occupied(chain.from_iterable(known)) if len(known) == len(stretches) else None
    return DeviceTime(sum(time.seconds for time in times), all(time.is_whole for time in times), shared)


def time_of(record: Record) -> DeviceTime:
    """A cell's time. Old records have only that of runs, and seeds of a stack the whole stack's each."""
    wall = record.get(WALL_SECONDS)
    if wall is not None and is_number(wall) and wall >= 0:
        return DeviceTime(float(wall))
    return DeviceTime(float(sum({run["seconds"] for run in record["runs"]})), False)


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:,.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def cost_lines(exhibits: Exhibits, titles: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """What each figure cost: cells, runs, device time, device, source; in all, each cell once."""
    for name, rows in exhibits.items():
        yield cost_line(titles[name], rows)
    if len(exhibits) > 1:
        yield cost_line("all, each cell once", each_once(exhibits))


def cost_line(title: str, rows: Sequence[ComparedRow]) -> tuple[str, ...]:
    runs = [run for row in rows for run in row.runs]
    time = str(device_time(records_of(rows)))
    return title, str(len(rows)), str(len(runs)), time, names(runs, "device"), names(runs, "source")
