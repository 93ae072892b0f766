"""What the recipe modern-2 derives from a task: batch, validation set, warm-up, short inputs first.

docs/learning.md says where each rule comes from.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from rmt.errors import ConfigError
from rmt.tasks.task import Task
from rmt.train.config import TrainConfig

# Sequences of an update by modern-2: fewer of long ones and on a CPU, more for deep models and where each has
# few losses.
BATCH, DEEP_BATCH, SMALL_BATCH = 128, 256, 64
LONG, DEEP = 256, 6  # tokens of a sequence, beyond which it is long; layers, from which on a model is deep
LEAST_LOSSES, MOST_TOKENS = 1024, 16_384  # of an update, if its batch is larger than these
LEAST_VALIDATION_LOSSES = 5000  # .995 of them right is then known to .001
# updates that rates rise for, in up to so many segments and tokens; in more of either in proportion, within a
# quarter of all
WARMUP, FEW_SEGMENTS, FEW_TOKENS = 100, 9, 360
GROWTH = 1.2  # of inputs where short ones come first: two pairs of retrieval, then three, then four
# right answers that earn longer inputs: with two pairs, one letter of 26 that is not told apart costs .04
PROMOTE_AT = 0.97
UNTIL = 0.6  # of the steps: a model that cannot earn longer inputs has the rest for the whole task


def rules_for(task: Task, size: str, layers: int, segments: int, steps: int) -> dict[str, Any]:
    """What modern-2 derives from a task.

    How many sequences it learns from and is judged by, which come first, and how long rates rise: an update
    changes what goes over all borders as often as there are segments, and in long ones writing and reading
    find each other later.
    """
    batch = usual_batch(size, layers, task.total_length)
    most = max(batch, MOST_TOKENS // task.total_length)
    losses = task.losses
    warmup = int(WARMUP * max(1, segments / FEW_SEGMENTS, task.total_length / FEW_TOKENS))
    grows = task.begins and getattr(task, task.grows) > task.begins
    short_first = {
        "over": "length",
        "start": task.begins,
        "growth": GROWTH,
        "promote_at": PROMOTE_AT,
        "until": UNTIL,
    }
    return {
        "train": {
            "batch": min(most, max(batch, ceil(LEAST_LOSSES / losses))),
            "evaluate_samples": validation_samples(task, ceil(LEAST_VALIDATION_LOSSES / losses)),
        },
        "rate": {"warmup": min(warmup, max(WARMUP, steps // 4))},
        "curriculum": short_first if grows else {},
    }


def usual_batch(size: str, layers: int, tokens: int) -> int:
    """Sequences of an update where each has many losses.

    Six layers at the rate that suits four are held back by noise: equations end with a third of the wrong
    answers when an update has twice the sequences; half the rate was no better halfway.
    """
    if size != "paper" or tokens > LONG:
        return SMALL_BATCH
    return DEEP_BATCH if layers >= DEEP else BATCH


def validation_samples(task: Task, wanted: int) -> int:
    """Sequences of a validation set: so many, where that is more than usual and there are as many."""
    usual = TrainConfig().evaluate_samples
    if wanted <= usual:
        return usual
    try:
        task.beginning("valid", wanted)
    except ConfigError:  # few different ones
        return usual
    return wanted
