"""Where seeds that were stopped go on: at the newest step that all of them have a whole checkpoint of.

Stacked products are rounded otherwise than single ones. So seeds have the bits of an uninterrupted run only
if they make every update beside those that made it with them there.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmt.errors import CheckpointError
from rmt.train.checkpoint import load_parts
from rmt.train.loop import Loop

Steps = dict[int, bool]  # the steps of whole checkpoints, newest first: whether the run was at its end there


def meet(loops: Sequence[Loop]) -> None:
    """Let every run go on from where all were, or are at their ends."""
    steps = {loop: whole_steps(loop) for loop in loops}
    for loop, step in meeting_steps(steps).items():
        newest = max(steps[loop], default=0)
        loop.resume_up_to = step
        if step < newest:
            loop.observer.note(f"going back from step {newest} to {step}, which all seeds have")


def whole_steps(loop: Loop) -> Steps:
    """The whole checkpoints of a run, and its beginning if it has saved once at most; damaged ones are named.

    Where a process was killed while seeds saved for the first time, all have their beginnings only.
    """
    steps: Steps = {}
    for step in loop.checkpoints.steps():
        try:
            saved = load_parts(loop.checkpoints.folder / f"step_{step}").trainer
        except CheckpointError as error:
            loop.observer.warning(f"{error}; going back to a checkpoint before it")
            continue
        steps[step] = bool(saved["reached"]) or step >= loop.config.train.steps
    if len(loop.checkpoints.steps()) < 2 and not any(steps.values()):
        steps[0] = False
    return steps


def meeting_steps(steps: dict[Loop, Steps]) -> dict[Loop, int]:
    """The step at which each run goes on.

    A run that has no step in common with the others, as it diverged or is new, begins where it was.
    """
    for step in sorted({step for known in steps.values() for step in known}, reverse=True):
        chosen = {loop: step_up_to(known, step) for loop, known in steps.items()}
        if None not in chosen.values():
            return {loop: step or 0 for loop, step in chosen.items()}
    if not steps:
        return {}
    last = min(steps, key=lambda loop: max(steps[loop], default=0))
    others = {loop: known for loop, known in steps.items() if loop is not last}
    return {last: max(steps[last], default=0), **meeting_steps(others)}


def step_up_to(known: Steps, step: int) -> int | None:
    """Where a run is when the others are at a step: there, or at its end before; none if nobody knows."""
    if step in known:
        return step
    return next((earlier for earlier, at_end in known.items() if at_end and earlier < step), None)
