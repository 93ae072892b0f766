"""Rates that are tried on seed 0: where a trial lies, what it came to, which is the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import ConfigError
from rmt.experiments.cells import PlannedCell
from rmt.store import write_json

DIVERGED = "diverged.json"  # in the folder of a trial, whose rate is too large


class RateTrial(NamedTuple):
    """A rate tried on seed 0."""

    rate: float
    run: Path
    validation: float | None  # none = it diverged
    loss: float

    def rank(self, sign: int) -> tuple[float, float]:
        """Better is larger; of equal ones, that with the smaller validation loss."""
        return (-math.inf if self.validation is None else sign * self.validation, -self.loss)


def trial_folder(cell: PlannedCell, rate: float, folder: Path) -> Path:
    """Where the trial of a rate lies."""
    return folder / f"{'rate' if cell.reuses_trial else 'trial'}-{rate:g}"


def note_divergence(run: Path, message: str) -> None:
    """Write down that a trial came to nothing, so that it is not made again."""
    run.mkdir(parents=True, exist_ok=True)
    write_json(run / DIVERGED, {"message": message})


def has_diverged(run: Path) -> bool:
    return (run / DIVERGED).exists()


def best_of(cell: PlannedCell, trials: Sequence[RateTrial], sign: int) -> RateTrial:
    """The trial that is best on validation."""
    best = max(trials, key=lambda trial: trial.rank(sign))
    if best.validation is None:
        raise ConfigError(
            f"every rate of {cell.name} diverges: {', '.join(map(str, cell.rates))}; give others"
        )
    return best


def shown_trial(trial: RateTrial) -> dict[str, Any]:
    return {"rate": trial.rate, "run": trial.run.name, "validation": trial.validation}
