"""Scale `gpu`: the paper's figures and tables at its own model sizes, a few hours of one large GPU.

Short budgets of the recipe `modern`, the same for all models of a comparison. Texts are trained on less than
in the paper; a single run of the recipe `paper` goes to its end.
"""

from __future__ import annotations

from collections.abc import Iterator

from rmt.experiments.cells import PlannedCell
from rmt.experiments.paper import exhibit_rows, paper_budget
from rmt.experiments.positions import MODELS, RECURRENT, Position, Texts
from rmt.experiments.settings import Settings, merge

RATES = (0.0025, 0.005, 0.01)  # of Muon
STEPS = 3000  # of copy, reverse and retrieval
SIZE: Settings = {"size": "paper", "train": {"steps": STEPS}}
RETRIEVAL = merge(SIZE, {"train": {"evaluate_every": 250}})
QUADRATIC: Settings = {
    "size": "paper",
    "model": {"positions": "rotary"},
    "train": {"steps": 5000, "evaluate_every": 1000},
}


def figure_3(data: str) -> Iterator[PlannedCell]:
    """Copy, reverse, retrieval over segments; RMT without gradient between segments; the recipe `paper`."""
    seeds = {"seeds": 5, "other_seeds": 2}
    for task, length, counts in (("copy", 72, (3, 6, 9)), ("reverse", 48, (2, 4, 6))):
        whole = Position(
            exhibit="figure-3", task=task, length=24, shared=SIZE, rates=RATES, seeds=2, other_seeds=2
        )
        yield from whole.cells(("rmt", "baseline"), 24)
        for segments in counts:
            position = Position(
                exhibit="figure-3",
                task=task,
                length=24,
                segments=segments,
                shared=SIZE,
                rates=RATES,
                **seeds,
            )
            yield from position.cells(MODELS, length // segments)
    for segments, size in ((2, 5), (2, 4), (3, 3), (5, 2)):
        position = Position(
            exhibit="figure-3", task="retrieval", segments=segments, shared=RETRIEVAL, rates=RATES, **seeds
        )
        yield from position.cells(MODELS if size != 4 else RECURRENT, size)
    whole = Position(exhibit="figure-3", task="retrieval", shared=RETRIEVAL, rates=RATES, seeds=2)
    yield from whole.cells(("rmt", "baseline"), 5)
    yield from depth_0()
    yield from to_the_end()


def depth_0() -> Iterator[PlannedCell]:
    """RMT as the caption of Fig. 3 has it, without gradient between segments; long: does it rise?"""
    for segments in (3, 6, 9):
        position = Position(
            exhibit="figure-3",
            task="copy",
            length=24,
            segments=segments,
            shared=merge(SIZE, {"train": {"steps": 20_000, "evaluate_every": 500}}),
            rates=RATES,
            trial_steps=STEPS,
        )
        yield position.cell("rmt", 72 // segments, {"bptt": {"depth": 0}}, special="-depth-0")


def to_the_end() -> Iterator[PlannedCell]:
    """Copy-24 in 3 segments by the recipe `paper`, all of its 400,000 updates."""
    for row in exhibit_rows("figure-3"):
        if (row.task, row.segments) == ("copy-24", 3) and row.model in RECURRENT:
            shared = merge({"size": "paper", "recipe": "paper"}, paper_budget(row))
            position = Position(exhibit="figure-3", task="copy", length=24, segments=3, shared=shared)
            yield position.cell(row.model, 24, special="-recipe-paper")


def figure_4(data: str) -> Iterator[PlannedCell]:
    """Long copies: 360 tokens in more segments, and more tokens in segments of 120 with memory 60."""
    places = ((120, 3, 60), (120, 6, 30), (120, 9, 40), (240, 6, 60), (360, 9, 60))
    whole = Position(exhibit="figure-4", task="copy", length=120, shared=SIZE, rates=RATES)
    yield whole.cell("baseline", 0)
    for length, segments, size in places:
        position = Position(
            exhibit="figure-4",
            task="copy",
            length=length,
            segments=segments,
            shared=SIZE,
            rates=RATES,
            seeds=3,
            other_seeds=1,
        )
        yield from position.cells((*RECURRENT, "baseline"), size)


def figure_8(data: str) -> Iterator[PlannedCell]:
    """Memory of half a segment: copy-24, reverse-24, and reverse-120 with memory 60."""
    places = (
        ("copy", 24, 3, 12),
        ("copy", 24, 6, 6),
        ("reverse", 24, 2, 12),
        ("reverse", 24, 4, 6),
        ("reverse", 120, 2, 60),
        ("reverse", 120, 4, 60),
        ("reverse", 120, 6, 60),
    )
    for task, length, segments, size in places:
        position = Position(
            exhibit="figure-8",
            task=task,
            length=length,
            segments=segments,
            shared=SIZE,
            rates=RATES,
            seeds=3,
        )
        yield from position.cells(RECURRENT, size)
    whole = Position(exhibit="figure-8", task="reverse", length=120, shared=SIZE, rates=RATES)
    yield whole.cell("baseline", 0)


def table_1(data: str) -> Iterator[PlannedCell]:
    """Quadratic equations: the baseline in one segment, Transformer-XL and RMT in six."""
    position = Position(exhibit="table-1", task="quadratic", shared=QUADRATIC, rates=RATES, seeds=3)
    yield position.cell("baseline", 0)
    yield from position.cut(6).cells((*RECURRENT, "baseline"), 30)


def text_settings(data: str, settings: Settings) -> Settings:
    return merge({"task": {"name": "text", "data": data}}, settings)


def figure_5(data: str) -> Iterator[PlannedCell]:
    """Memory, depth and cache on enwik8: 6 layers × 256, 2,000 updates, one per segment for all."""
    shared = text_settings(
        data or "enwik8-204",
        {
            "size": "enwik8-base",
            "scale": "gpu",
            "bptt": {"schedule": "sliding", "depth": 0},
            "train": {"batch": 64, "steps": 2000, "evaluate_batch": 64},
        },
    )
    yield from sweep(
        Texts(exhibits=("figure-5",), label=label_of(data or "enwik8-204"), shared=shared, rates=RATES)
    )


def sweep(texts: Texts) -> Iterator[PlannedCell]:
    """Memory 1, 10, 25 at depth 0, 1, 2; cache 10, 40, 200; both, replayed two ways, with a memory loss."""
    yield texts.cell("baseline")
    yield texts.cell("memory_transformer", memory=10)
    for cache in (10, 40, 200):
        yield texts.cell("transformer_xl", cache=cache)
    for memory in (1, 10, 25):
        for depth in (0, 1, 2):
            yield texts.cell("rmt", memory=memory, settings={"bptt": {"depth": depth}})
    for replay in ("stored", "latest"):
        for loss in ({}, {"train": {"memory_loss": 0.01}}):
            bptt: Settings = {"bptt": {"depth": 2, "replay_from": replay}}
            yield texts.cell("transformer_xl_rmt", memory=10, cache=200, settings=merge(bptt, loss))


def words(data: str, exhibits: tuple[str, ...]) -> Texts:
    """Words at the scale that the data allow: WikiText-2 where no other corpus is named."""
    shared = text_settings(
        data or "wikitext-2",
        {
            "task": {"segment_length": 32},
            "size": "wt103-base",
            "scale": "gpu",
            "bptt": {"schedule": "sliding", "depth": 0},
            "train": {"batch": 128, "steps": 1000, "evaluate_batch": 64},
        },
    )
    return Texts(exhibits=exhibits, label=label_of(data or "wikitext-2"), shared=shared, rates=RATES)


def table_2(data: str) -> Iterator[PlannedCell]:
    """Language models of words: the models of the paper's selection."""
    texts = words(data, ("table-2", "table-5"))
    deep: Settings = {"bptt": {"depth": 2}}
    yield texts.cell("baseline")
    yield texts.cell("memory_transformer", memory=10)
    for cache in (10, 32, 64):
        yield texts.cell("transformer_xl", cache=cache)
    yield texts.cell("rmt", memory=10, settings=deep)
    yield texts.cell("transformer_xl_rmt", memory=10, cache=32, settings=deep)


def table_5(data: str) -> Iterator[PlannedCell]:
    """All language models of words: memory and depth beside the selection."""
    yield from table_2(data)
    texts = words(data, ("table-5",))
    for memory, depth in ((1, 0), (1, 2), (10, 0), (10, 1), (25, 0), (25, 2)):
        yield texts.cell("rmt", memory=memory, settings={"bptt": {"depth": depth}})


def table_4(data: str) -> Iterator[PlannedCell]:
    """The whole enwik8 at the paper's size: 12 passes, three segments of 64 lanes per update of any model."""
    shared = text_settings(
        data or "enwik8-204",
        {
            "size": "enwik8-base",
            "model": {"positions": "rotary"},
            "bptt": {"schedule": "chunked", "depth": 2},
            "train": {"batch": 64, "steps": 43_500, "evaluate_every": 3625, "save_every": 3625},
        },
    )
    texts = Texts(
        exhibits=("table-4",),
        label=f"{label_of(data or 'enwik8-204')}-12-layers",
        shared=shared,
        rates=RATES,
        trial_steps=2000,
    )
    yield texts.cell("baseline")
    for cache in (10, 200):
        yield texts.cell("transformer_xl", cache=cache)
    for memory in (10, 20):
        yield texts.cell("rmt", memory=memory)


def label_of(data: str) -> str:
    """The name of a text, for those of cells: the last part of its path, without its ending."""
    return data.rstrip("/").rpartition("/")[2].partition(".")[0]
