"""How long learning rates rise: below 1 a share of the steps, else steps."""

from __future__ import annotations

from rmt.errors import ConfigError


def check_warmup(name: str, warmup: float) -> None:
    """Raise for what is neither a share nor a number of steps."""
    if warmup >= 1 and warmup != round(warmup):
        raise ConfigError(f"{name}={warmup} must be a whole number of steps, or a share of them below 1")


def warmup_steps(warmup: float, steps: int) -> int:
    """The steps of a warm-up in a training of so many."""
    return round(warmup if warmup >= 1 else warmup * steps)
