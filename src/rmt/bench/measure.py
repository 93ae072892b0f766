"""Time, memory and kernels of training steps and of an evaluation; the host waits only between blocks."""

from __future__ import annotations

import ctypes
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from rmt.bench.flops import forward, shares, work
from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.evaluate.perplexity import perplexity
from rmt.precision import weight_format
from rmt.tasks.task import Task
from rmt.text.lanes import Lanes
from rmt.text.task import Text
from rmt.train.config import RunConfig
from rmt.train.device import device_of
from rmt.train.ensemble import require_stackable, updates_together
from rmt.train.stack import StackedUpdater
from rmt.train.trainer import Trainer

BLOCKS = 5  # a median of blocks is not moved by a single disturbance
WARM_UP = 6  # batches: the first compile, the second of a kind is recorded, the rest fill caches
RECORDING = 4  # segments of an evaluation that compile and record, left out of its time
Way = Literal["off", "record", "auto"]
WAYS: dict[Way, str] = {
    "off": "eager",
    "record": "recorded",
    "auto": "fast",
}  # --compile: what a table calls it
# rows of the square product to compare with, large enough to keep the device busy, and its number format
PRODUCT = {"cuda": (8192, torch.bfloat16), "cpu": (1024, torch.float32)}
PRODUCTS_ON_GPU = 50  # to time: 1.1 TFLOP each, a few ms
CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")  # of Linux


class Spread(NamedTuple):
    """Seconds of one step in the median block, the quickest and the slowest."""

    median: float
    low: float
    high: float


class Row(NamedTuple):
    """One configuration, measured one way."""

    configuration: str
    way: str  # eager, fast, evaluation; a further way of training is a further name and a row
    step: Spread
    tokens: float = 0  # of a step; 0 = it has none, such as the start of a command
    flops: float = 0  # of a step, by formula; 0 = not counted
    product: float = 0  # operations per second of a square product, right after; 0 = not measured
    peak: int | None = None  # bytes: allocated on a GPU, resident on a CPU; none where they are not told
    kernels: int | None = None  # of a step, on a GPU
    segments: float = 0  # computed in a step, replayed ones again; 0 = not counted
    beside: tuple[str, ...] = ()  # configurations that it is compared with, measured the same way

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.step.median

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.flops / self.step.median

    @property
    def utilisation(self) -> float:
        """The former as a part of a square product's, 0 where that was not measured."""
        return self.rate / self.product if self.product else 0.0


def bench(
    name: str, config: RunConfig, task: Task, ways: list[Way], steps: int, seeds: int = 0
) -> Iterator[Row]:
    """The rows of one configuration: training in each of the `ways`, many seeds at once, evaluating text."""
    for way in ways:
        with alone(name):
            yield training(name, replace(config, compile=way), task, steps)
    if seeds:
        with alone(name):
            yield together(name, replace(config, compile=ways[-1]), task, steps, seeds)
    for further in FURTHER[task.layout]:
        with alone(name):
            yield further(name, config, task, 20 * steps)


def training(name: str, config: RunConfig, task: Task, steps: int) -> Row:
    """Updates as a run makes them, data and all."""
    asked = work(config, task)
    trainer = Trainer(config, task)
    device = trainer.processes.device
    times = update_times(trainer, steps)
    peak, kernels = peak_memory(device), kernel_count(trainer)
    return Row(
        name,
        WAYS[config.compile],
        spread(times),
        asked.tokens / asked.updates,
        asked.flops / asked.updates,
        product_rate(device),
        peak,
        kernels,
        asked.segments / asked.updates,
    )


def together(name: str, config: RunConfig, task: Task, steps: int, seeds: int) -> Row:
    """Updates of many seeds at once, as `rmt train --seeds` makes them; a step is one of each."""
    require_stackable(config)
    asked = work(config, task)
    trainers = [Trainer(replace(config, seed=config.seed + seed), task) for seed in range(seeds)]
    device = trainers[0].processes.device
    stacked = StackedUpdater([trainer.updater for trainer in trainers])

    def batch() -> int:
        return len(updates_together(trainers, stacked)[0])

    for _ in range(WARM_UP):
        batch()
    times, peak = block_times(batch, steps, device), peak_memory(device)
    tokens, flops, segments = (seeds * count / asked.updates for count in asked[1:])
    rate = product_rate(device)
    return Row(name, f"{seeds} seeds", spread(times), tokens, flops, rate, peak, segments=segments)


def evaluation(name: str, config: RunConfig, task: Text, steps: int) -> Row:
    """Perplexity as `rmt evaluate` computes it, a segment being a step; the first few record it."""
    device = torch.device(device_of(config.device))
    length, batch = task.segment_length, config.train.evaluate_batch or config.train.batch
    count, cutoffs = ceil(steps / BLOCKS), config.model.cutoffs
    text = task.corpus.tokens("train")
    lanes = Lanes(text[: batch * (count * length + 1)], batch)
    model = SegmentModel(config.model).to(device, weight_format(config.precision))

    def seconds() -> float:
        start, skipped = time.perf_counter(), 0

        def watch(done: int, count: int) -> None:
            nonlocal start, skipped
            if done == RECORDING < count:
                wait(device)
                start, skipped = time.perf_counter(), done

        perplexity(model, lanes, length, watch, config.precision)
        return (time.perf_counter() - start) / (lanes.segments(length) - skipped)

    seconds()
    times, peak = [seconds() for _ in range(BLOCKS)], peak_memory(device)
    tokens = lanes.predicted / lanes.segments(length)
    cost = forward(config.model, length, batch, shares(text, cutoffs))
    flops = cost.whole * tokens / (batch * length)
    return Row(name, "evaluation", spread(times), tokens, flops, product_rate(device), peak, segments=1)


# what is measured beside training; generating answers takes as long as they are wrong, so it is not
FURTHER: dict[str, tuple[Callable[..., Row], ...]] = {"sequences": (), "lanes": (evaluation,)}


def update_times(trainer: Trainer, steps: int) -> list[float]:
    """Seconds per update in each block of `steps` updates, after those that compile and record."""

    def batch() -> int:
        return sum(1 for _ in trainer.updates())

    for _ in range(WARM_UP):
        batch()
    return block_times(batch, steps, trainer.processes.device)


def block_times(work: Callable[[], int], steps: int, device: torch.device) -> list[float]:
    """Seconds per step in each of five blocks; `work` does some steps and says how many."""
    times, size = [], ceil(steps / BLOCKS)
    for _ in range(BLOCKS):
        wait(device)
        start, done = time.perf_counter(), 0
        while done < size:
            done += work()
        wait(device)
        times.append((time.perf_counter() - start) / done)
    return times


def spread(times: list[float]) -> Spread:
    return Spread(statistics.median(times), min(times), max(times))


def product_rate(device: torch.device) -> float:
    """Operations per second of one large square product: bfloat16 on a GPU, float32 on a CPU."""
    size, dtype = PRODUCT[device.type]
    left, right = torch.randn(2, size, size, device=device).to(dtype)

    def multiply() -> int:
        torch.mm(left, right)
        return 1

    multiply()
    times = block_times(multiply, PRODUCTS_ON_GPU if device.type == "cuda" else BLOCKS, device)
    return 2 * size**3 / spread(times).median


def kernel_count(trainer: Trainer) -> int | None:
    """Kernels of one update on a GPU, copies and fills of memory left out."""
    if trainer.processes.device.type != "cuda":
        return None
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        updates = sum(1 for _ in trainer.updates())
        wait(trainer.processes.device)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return round(sum(event.get("cat") == "kernel" for event in events) / updates)


def peak_memory(device: torch.device) -> int | None:
    """The most bytes in use since `alone` began."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    try:
        lines = STATUS.read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Forget what earlier models left behind; a model that does not fit is one clear line."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with suppress(OSError, AttributeError):  # where there is Linux: peaks of resident memory start from here
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR.write_text("5")
    try:
        yield
    except torch.OutOfMemoryError:
        raise ConfigError(
            f"{name} does not fit into the GPU's memory; use a smaller --batch, or --bptt.checkpoint true"
        ) from None
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(precision)


def wait(device: torch.device) -> None:
    """Until the device has done everything it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
