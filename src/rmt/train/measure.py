"""The metrics of a run on a split: by generating answers, or by predicting every token of a text."""

from __future__ import annotations

from collections.abc import Callable

from rmt.core.model import SegmentModel
from rmt.evaluate.evaluate import evaluate
from rmt.evaluate.perplexity import perplexity, with_cache
from rmt.tasks.segments import segment_length
from rmt.tasks.task import Task
from rmt.text.task import Text
from rmt.train.config import RunConfig


def measure(
    model: SegmentModel,
    task: Task | Text,
    config: RunConfig,
    split: str,
    *,
    samples: int | None = None,
    batch: int | None = None,
    thorough: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """All metrics on the first `samples` examples, or on all; not `thorough`: the usual ones.

    `batch` sequences or lanes of text are read at a time.
    """
    train = config.train
    if isinstance(task, Text):
        lanes = task.lanes(split, batch or train.evaluate_batch or train.batch)
        if train.evaluate_cache is not None:
            model = with_cache(model, train.evaluate_cache)
        half = config.precision == "bf16-mixed"
        metrics = perplexity(model, lanes, config.task.segment_length, progress, half)
        if task.metric != "bits_per_character":
            del metrics["bits_per_character"]  # tokens are longer than characters
        return metrics
    on_gpu = next(model.parameters()).device.type == "cuda"
    return evaluate(
        model,
        task,
        segment_length(task.total_length, config.task.segments),
        split=split,
        samples=samples,
        batch=batch or rows_at_once(task, on_gpu),
        thorough=thorough,
        progress=progress,
    )


def rows_at_once(task: Task, on_gpu: bool) -> int:
    """Sequences whose logits fit: at most 2 GiB of them on a GPU, half a GiB elsewhere."""
    most, logits = (2500, 1 << 29) if on_gpu else (500, 1 << 27)
    return min(most, max(1, logits // (task.total_length * task.vocabulary)))
