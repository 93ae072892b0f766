"""Many seeds of one configuration, trained at once: each as if it were alone, for little more than one costs."""

# K seeds · B rows · L tokens

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.utils._pytree import tree_map
from torch.utils._triton import has_triton

from rmt.core.model import Output
from rmt.core.state import State
from rmt.errors import ConfigError, RMTError
from rmt.tasks.segments import Segment
from rmt.train.capture import Recorder
from rmt.train.config import RunConfig
from rmt.train.learner import Answer, Kind, Learner, Request
from rmt.train.loop import Loop
from rmt.train.optim import build_optimizers
from rmt.train.parallel import world_size
from rmt.train.trainer import Trainer

Life = Generator[Request, Answer, dict[str, Any]]


def run_together(loops: Sequence[Loop]) -> list[dict[str, Any]]:
    """The results of runs that differ in their seeds, in order; the first error is raised when all are over.

    Runs go on together from the least step that any is at; one that reaches its target leaves.
    """
    stack, errors = Stack([]), []
    results: dict[Loop, dict[str, Any]] = {}
    waiting: dict[Loop, tuple[Life, Request]] = {}

    def go_on(loop: Loop, life: Life, answer: Answer | None) -> None:
        try:
            waiting[loop] = life, life.send(answer)  # type: ignore[arg-type]
        except StopIteration as end:
            results[loop] = end.value
        except RMTError as error:
            errors.append(error)

    for loop in loops:
        go_on(loop, loop.life(), None)
    while waiting:
        chosen = next_together(waiting, stack)
        trainers = [loop.trainer for loop in chosen]
        if trainers != stack.trainers:
            stack.release()
            stack = Stack(trainers)
        lives, requests = zip(*(waiting.pop(loop) for loop in chosen), strict=True)
        for loop, life, answer in zip(chosen, lives, stack.answer(requests), strict=True):
            go_on(loop, life, answer)
    stack.release()
    if errors:
        raise errors[0]
    return [results[loop] for loop in loops]
