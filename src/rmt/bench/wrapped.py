"""Wrapped models of transformers beside the plain ones: one training step on the same tokens.

A step is forward, backward and AdamW. The plain model gets its rows all at once, and once more in the shapes
that a wrapped model has no choice but to use: one segment after another, as long as memory makes it.
"""

# B documents · S segments · L tokens of text in a segment · Q = L + memory + special tokens

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.bench.measure import Row, Spread, block_times, spread
from rmt.errors import ConfigError

MEMORY = 10  # memory tokens, as many as the paper's language models have
WARM_UP = 4  # steps: the second records what repeats
LEARNING_RATE = 1e-5
MILLISECONDS = 1000  # in a second
COLUMNS = [
    "model",
    "plain at once, ms",
    "plain in turn, ms",
    "wrapped, ms",
    "slower than at once",
    "slower than in turn",
    "wrapped, k tokens/s",
    "wrapped, peak GiB",
]


class Workload(NamedTuple):
    """A model with random weights, and documents that all have `segments` segments of `length` tokens."""

    model_class: str
    config_class: str
    sizes: Mapping[str, int]
    documents: int
    segments: int
    length: int
    predicts: bool  # every next token; else a class of each document
    ragged: bool = False  # rows end one after the other, the first where a quarter of a segment is missing


def bert(layers: int, width: int, documents: int = 16, length: int = 512) -> Workload:
    """An encoder with BERT's vocabulary and with positions for memory beside `length` tokens of text."""
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": 12,
        "intermediate_size": 4 * width,
        "max_position_embeddings": length + 64,
    }
    return Workload("BertForSequenceClassification", "BertConfig", sizes, documents, 4, length, False)


def gpt2(documents: int = 4, length: int = 1024) -> Workload:
    """GPT-2, with positions for memory beside `length` tokens of text."""
    return Workload("GPT2LMHeadModel", "GPT2Config", {"n_positions": length + 64}, documents, 4, length, True)


WORKLOADS = {"minilm": bert(6, 384), "bert-base": bert(12, 768), "gpt2": gpt2()}
RAGGED = {f"{name}-ragged": workload._replace(ragged=True) for name, workload in WORKLOADS.items()}


class StepTime(NamedTuple):
    """Milliseconds of a step in the median block, the quickest and the slowest."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> Spread:
        """In seconds."""
        return Spread(*(milliseconds / MILLISECONDS for milliseconds in self))


class Comparison(NamedTuple):
    """The three ways of one workload."""

    workload: str
    tokens: int  # of text in a step
    at_once: StepTime  # the plain model, all rows in one batch
    in_turn: StepTime  # the plain model, one segment after another
    wrapped: StepTime
    peak: int  # bytes that the wrapped model's steps allocated at most; 0 where the device does not tell

    @property
    def slower_than_at_once(self) -> float:
        return self.wrapped.median / self.at_once.median

    @property
    def slower_than_in_turn(self) -> float:
        return self.wrapped.median / self.in_turn.median

    def record(self) -> dict[str, Any]:
        """The numbers by their names, ratios too."""
        times = {name: getattr(self, name)._asdict() for name in ("at_once", "in_turn", "wrapped")}
        ratios = {name: getattr(self, name) for name in ("slower_than_at_once", "slower_than_in_turn")}
        return {"workload": self.workload, "tokens": self.tokens, **times, **ratios, "peak": self.peak}


def compare(name: str, workload: Workload, device: torch.device, steps: int) -> Comparison:
    """Time the three ways, each `steps` steps after its warm-up."""
    at_once, in_turn, wrapped = (
        step_time(way(workload, device), device, steps) for way in (plain_at_once, plain_in_turn, with_memory)
    )
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    tokens = workload.documents * workload.segments * workload.length
    return Comparison(name, tokens, at_once, in_turn, wrapped, peak)


def wrapped_rows(device: torch.device, steps: int) -> Iterator[Row]:
    """The rows of all workloads, each wrapped model beside its two plain ones; a step is an update."""
    for name in WORKLOADS:
        compared = compare(name, WORKLOADS[name], device, steps)
        plain = {f"{name}-at-once": compared.at_once, f"{name}-in-turn": compared.in_turn}
        for configuration, measured in plain.items():
            yield Row(configuration, "training", measured.spread, compared.tokens)
        memory = compared.wrapped.spread
        peak = compared.peak or None
        yield Row(f"{name}-memory", "training", memory, compared.tokens, peak=peak, beside=(*plain,))


def comparisons(names: Sequence[str], device: torch.device, steps: int) -> Iterator[Comparison]:
    """The comparisons of workloads by their names."""
    known = {**WORKLOADS, **RAGGED}
    for name in names:
        if name not in known:
            raise ConfigError(f"workload {name!r} is unknown; choose from: {', '.join(known)}")
        yield compare(name, known[name], device, steps)


def table_lines(rows: Iterable[Comparison]) -> Iterator[str]:
    """The lines of a table in Markdown, each as soon as its row is measured."""
    for cells in (COLUMNS, ["---"] * len(COLUMNS)):
        yield f"| {' | '.join(cells)} |"
    for row in rows:
        yield f"| {' | '.join(cells_of(row))} |"


def cells_of(row: Comparison) -> list[str]:
    """Milliseconds of a step (quickest to slowest block), and ratios, in the order of `COLUMNS`."""
    times = (row.at_once, row.in_turn, row.wrapped)
    ratios = (row.slower_than_at_once, row.slower_than_in_turn)
    return [
        row.workload,
        *(f"{time.median:.1f} ({time.low:.1f} to {time.high:.1f})" for time in times),
        *(f"{ratio:.2f}" for ratio in ratios),
        f"{row.tokens / row.wrapped.median:,.0f}",  # per millisecond: thousands per second
        f"{row.peak / 2**30:.2f}",
    ]


def hardware(device: torch.device) -> str:
    """What it was measured on and with."""
    from rmt.hf.extra import require_transformers

    transformers = require_transformers()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return f"{name}, torch {torch.__version__}, transformers {transformers.__version__}"


def plain_at_once(workload: Workload, device: torch.device) -> Callable[[], None]:
    """A step of the plain model on segments as rows of one batch (B · S, L)."""
    with device:
        model = plain_model(workload).train()
    tokens = random_tokens(workload.documents * workload.segments, workload.length, device)
    return training_step(model, [batch(workload, tokens)], device)


def plain_in_turn(workload: Workload, device: torch.device) -> Callable[[], None]:
    """A step of the plain model on batches (B, Q), a forward and a backward pass for each segment."""
    with torch.device("meta"):  # sizes only
        length = positions(wrapped_model(workload))
    with device:
        model = plain_model(workload).train()
    tokens = random_tokens(workload.documents, length, device)
    return training_step(model, [batch(workload, tokens)] * workload.segments, device)


def with_memory(workload: Workload, device: torch.device) -> Callable[[], None]:
    """A step of the wrapped model on whole documents."""
    with device:
        model = wrapped_model(workload).train()
    settings = model.settings
    length = workload.segments * workload.length + settings.prefix + settings.suffix
    tokens = random_tokens(workload.documents, length, device)
    return training_step(model, [batch(workload, tokens)], device)


def plain_model(workload: Workload) -> Any:
    from rmt.hf.extra import require_transformers

    transformers = require_transformers()
    torch.manual_seed(0)
    config = getattr(transformers, workload.config_class)(**workload.sizes)
    return getattr(transformers, workload.model_class)(config)


def wrapped_model(workload: Workload) -> Any:
    from rmt.hf import add_memory

    return add_memory(plain_model(workload), memory=MEMORY, segment_length=workload.length, kind="tokens")


def positions(model: Any) -> int:
    """The length Q of a whole segment of a wrapped model."""
    settings, memory = model.settings, model.memory
    special = settings.prefix + settings.suffix + model.layout.separator
    return int(settings.segment_length + special + memory.read_size + memory.write_size)


def random_tokens(rows: int, length: int, device: torch.device) -> Tensor:
    """Tokens (rows, length) that every vocabulary here has."""
    return torch.randint(1000, 30_000, (rows, length), device=device)


def batch(workload: Workload, tokens: Tensor) -> dict[str, Tensor]:
    """The arguments of a model for these tokens, labels among them."""
    inputs = {"input_ids": tokens, "labels": tokens if workload.predicts else tokens[:, 0] % 2}
    if workload.ragged:
        rows, length = tokens.shape
        missing = torch.linspace(workload.length / 4, 0, rows, device=tokens.device)
        exists = torch.arange(length, device=tokens.device) < length - missing[:, None]
        inputs["attention_mask"] = exists.long()
    return inputs


def training_step(model: Any, batches: list[dict[str, Tensor]], device: torch.device) -> Callable[[], None]:
    """Forward and backward of each batch, then one update."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        for inputs in batches:
            with bfloat16(device):
                loss = model(**inputs).loss
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def bfloat16(device: torch.device) -> AbstractContextManager[Any]:
    """Products in bfloat16 on a GPU; a CPU computes as it is."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def step_time(step: Callable[[], None], device: torch.device, steps: int) -> StepTime:
    """Milliseconds of a step; the host waits between blocks only."""

    def work() -> int:
        step()
        return 1

    for _ in range(WARM_UP):
        step()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    return StepTime(*(MILLISECONDS * seconds for seconds in spread(block_times(work, steps, device))))
