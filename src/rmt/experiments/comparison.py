"""What came out of cells beside what the paper says: the rows of every report."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.core.cache import cache_reach
from rmt.experiments.attention_maps import AttentionMap, map_of
from rmt.experiments.distance import distances_of
from rmt.experiments.paper import PublishedRow, exhibit_rows

LOWER_IS_BETTER = ("perplexity", "bits_per_character")
PAPER_SIZES = ("paper", "enwik8-base", "wt103-base")
CORPORA = {"enwik8-204": "enwik8", "enwik8": "enwik8", "wikitext-103": "wikitext-103"}
PUBLISHED_SPLIT = "test_published"  # of documents: the paper's, whose articles are in the training set, too
SHOWN_OF_TEXT = 6  # characters of a fingerprint that tell texts of one name apart
Record = dict[str, Any]


class ComparedRow(NamedTuple):
    """A cell in one figure or table."""

    exhibit: str
    name: str
    task: str  # with its source length, or a text
    segments: int  # 0 = a text
    length: int  # tokens of a segment
    model: str
    memory: int
    cache: int
    depth: str
    recipe: str
    record: Record
    published: PublishedRow | None

    @property
    def runs(self) -> list[Record]:
        return list(self.record["runs"])

    @property
    def values(self) -> list[float]:
        return [run["value"] for run in self.runs]

    @property
    def mean(self) -> float:
        return statistics.mean(self.values)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def metric(self) -> str:
        return str(self.record["metric"])

    @property
    def averages(self) -> bool:
        """Whether its answer is the mean of answers to segments that know nothing of each other."""
        return bool(self.record["config"].get("answer") == "mean")

    @property
    def text(self) -> str:
        """The fingerprint of the text; nothing where all is drawn, or an earlier release trained it."""
        return next((str(run["fingerprint"]) for run in self.runs if "fingerprint" in run), "")

    @property
    def constant(self) -> float | None:
        """What the constant answer comes to; none where an earlier release trained it."""
        return self.runs[0].get("constant")

    @property
    def sign(self) -> int:
        """1 if more is better."""
        return -1 if self.metric in LOWER_IS_BETTER else 1

    @property
    def size(self) -> int:
        """Memory, or the cache of a model without: what models at one position have as much of."""
        return self.memory or self.cache

    @property
    def has_depth(self) -> bool:
        """Whether a depth of BPTT means something: memory goes from segment to segment."""
        return self.memory > 0 and self.model != "memory_transformer" and self.segments != 1

    @property
    def updates(self) -> int:
        return int(self.runs[0]["steps"])

    @property
    def is_documents(self) -> bool:
        """Whether `rmt finetune` made its runs, each of which ends when it gets no better."""
        return bool(self.record["cell"]["command"] == "finetune")

    def settings(self, group: str) -> Record:
        """A group of what its runs were configured with; none of documents."""
        return {} if self.is_documents else dict(self.record["config"][group])

    @property
    def edge(self) -> str:
        """Whether the rate that was chosen is the largest or the smallest of those tried."""
        tried = sorted({trial["rate"] for trial in self.record["trials"]})
        if len(tried) < 2 or self.record["rate"] not in (tried[0], tried[-1]):
            return ""
        return "largest" if self.record["rate"] == tried[-1] else "smallest"

    @property
    def original(self) -> float | None:
        """The mean by the paper's own measure, where it is another."""
        values = [papers_value(run["metrics"], self.metric) for run in self.runs]
        known = [value for value in values if value is not None]
        return statistics.mean(known) if len(known) == len(values) else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, by its own metric; above 0 is better than the paper."""
        if self.published is None or (reference := reference_of(self.published)) is None:
            return None
        ours = self.mean if self.original is None else self.original
        return self.sign * (ours - reference)

    @property
    def reach(self) -> int | None:
        """Tokens before a segment that a cache alone reaches; nothing for one without, or with memory."""
        if not self.cache or self.memory:
            return None
        return cache_reach(self.record["config"]["model"]["layers"], self.length, self.cache)

    @property
    def asked(self) -> dict[int, int]:
        """How far before each answering segment the task asks."""
        return {} if self.is_documents or self.segments <= 1 else distances_of(self.record["config"])

    @property
    def by_segment(self) -> dict[int, float]:
        """The mean accuracy of each answering segment."""
        parts = [run["by_segment"] for run in self.runs]
        return {int(key): statistics.mean(part[key] for part in parts) for key in parts[0]}

    @property
    def maps(self) -> dict[str, AttentionMap]:
        """The clearest head of each operation of memory and cache, where the record has them."""
        maps = map(map_of, self.runs[0].get("maps", ()))
        return {drawn.operation: drawn for drawn in maps if drawn is not None}

    def paths(self) -> list[str]:
        """The run folders behind its numbers, below that of the report."""
        return [f"{self.record['cell']['name']}/{run['run']}" for run in self.runs]


Exhibits = Mapping[str, Sequence[ComparedRow]]  # the rows of figures and tables, by their names


def papers_value(metrics: Mapping[str, Any], metric: str) -> float | None:
    """A run's value by the original code's looser metric, or on the split of the literature."""
    on_published: Mapping[str, float] = metrics.get(PUBLISHED_SPLIT, {})
    return metrics.get("original_accuracy", on_published.get(metric))


def reference_of(row: PublishedRow) -> float | None:
    """The paper's number: of the files, else as it is printed."""
    if row.measured:
        return row.measured.mean
    return row.printed.value if row.printed else None


def rows_of(records: Iterable[Record]) -> dict[str, list[ComparedRow]]:
    """The rows of every figure and table, in its name's order; cells of one name are numbered."""
    exhibits: dict[str, list[ComparedRow]] = {}
    counts = Counter[str]()
    for record in records:
        name = record["cell"]["name"]
        counts[name] += 1
        distinct_name = name if counts[name] == 1 else f"{name} ({counts[name]})"
        for exhibit in record["cell"]["exhibits"]:
            exhibits.setdefault(exhibit, []).append(row_of(record, exhibit)._replace(name=distinct_name))
    texts = text_names(row for rows in exhibits.values() for row in rows)
    return {
        name: sorted((row._replace(task=texts.get(row.text, row.task)) for row in exhibits[name]), key=order)
        for name in sorted(exhibits)
    }


def text_names(rows: Iterable[ComparedRow]) -> dict[str, str]:
    """A name for each text by its fingerprint: its first row's, with a part of that where two share it."""
    names: dict[str, str] = {}
    for row in rows:
        if row.text:
            names.setdefault(row.text, row.task)
    counts = Counter(names.values())
    return {
        text: name if counts[name] == 1 else f"{name} ({text[:SHOWN_OF_TEXT]})"
        for text, name in names.items()
    }


TASKS = ("copy", "reverse", "retrieval", "quadratic")  # as the paper has them
MODELS = ("baseline", "memory_transformer", "transformer_xl", "rmt", "transformer_xl_rmt")


def order(row: ComparedRow) -> tuple[Any, ...]:
    """By task as in the paper, by its length and segments, by model and what it carries."""
    task, _, length = row.task.partition("-")
    sizes = (row.memory, row.cache, row.depth)
    where = (rank(task, TASKS), task, (len(length), length), row.segments, row.length)
    return (*where, rank(row.model, MODELS), *sizes, row.name)


def rank(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def without_cell(exhibit: str, rows: Iterable[ComparedRow]) -> list[PublishedRow]:
    """The paper's rows that no cell of ours stands beside."""
    beside = [row.published for row in rows]
    others = [row for row in exhibit_rows(exhibit) if row not in beside]
    return sorted(others, key=published_order)


def published_order(row: PublishedRow) -> tuple[Any, ...]:
    """As `order`."""
    task, _, length = row.task.partition("-")
    sizes = (row.memory, row.cache, row.depth)
    where = (rank(task, TASKS), task, (len(length), length), row.segments, row.segment_length)
    return (*where, rank(row.model, MODELS), *sizes)


def row_of(record: Record, exhibit: str) -> ComparedRow:
    """A row of what a cell's command wrote."""
    return MAKERS[record["cell"]["command"]](record, exhibit)


def trained_row(record: Record, exhibit: str) -> ComparedRow:
    config = record["config"]
    task, model = config["task"], config["model"]
    is_text = bool(task["data"])
    row = ComparedRow(
        exhibit=exhibit,
        name=record["cell"]["name"],
        task=Path(task["data"]).name
        if is_text
        else task["name"] + (f"-{task['length']}" if task["length"] else ""),
        segments=0 if is_text else task["segments"],
        length=task["segment_length"] if is_text else segment_length(task),
        model=config["preset"],
        memory=model["memory"]["size"],
        cache=cached_tokens(model),
        depth=str(config["bptt"]["depth"]),
        recipe=config["recipe"],
        record=record,
        published=None,
    )
    comparable = config["size"] in PAPER_SIZES and config["scale"] == "full" and not task["options"]
    return row._replace(published=published_of(row)) if comparable else row


def cached_tokens(model: dict[str, Any]) -> int:
    """Positions of tokens in the cache, which the paper counts, without the memory's where it has them."""
    cache, memory = model["cache"], model["memory"]["size"]
    return int(cache["size"]) - (memory if cache["scope"] == "all" and cache["size"] > memory else 0)


def segment_length(task: dict[str, Any]) -> int:
    from rmt.train.config import TaskConfig, build_task

    built = build_task(TaskConfig(name=task["name"], length=task["length"], options=task["options"]))
    return built.tokens_per_segment(task["segments"])


def published_of(row: ComparedRow) -> PublishedRow | None:
    """The paper's row of the same task, cut, model, memory, cache and depth."""
    task = (
        row.task if row.segments else CORPORA.get(row.task.removesuffix("-bytes").removesuffix("-words"), "")
    )
    depths = {row.depth} if row.memory and row.model != "memory_transformer" else {row.depth, "0", "full"}
    wanted = (task, row.segments, row.model, row.memory, row.cache)
    for published in exhibit_rows(row.exhibit):
        key = (published.task, published.segments, published.model, published.memory, published.cache)
        fits = row.segments or published.segment_length == row.length
        if key == wanted and fits and published.depth in depths and "paper of" not in published.note:
            return published
    return None


def finetuned_row(record: Record, exhibit: str) -> ComparedRow:
    config = record["config"]
    backbone = Path(config["backbone"]).name
    row = ComparedRow(
        exhibit, record["cell"]["name"], "hyperpartisan", config["segments"], config["segment_length"] or 0,
        backbone, config["memory"], 0, str(config["depth"]), "finetune", record, None,
    )  # fmt: skip
    known = {(line.model, line.segments): line for line in exhibit_rows(exhibit)}
    return row._replace(published=known.get((backbone, row.segments)))


MAKERS = {"train": trained_row, "finetune": finetuned_row}
