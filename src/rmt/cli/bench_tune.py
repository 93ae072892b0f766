"""`rmt bench --tune`: the constants of the kernels, measured on the card at hand and kept for later runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmt.errors import ConfigError, unknown

if TYPE_CHECKING:
    from rmt.bench.tune import Table, Timer, Trial, TunedKernel


def tune(names: Sequence[str], settings: Mapping[str, Any]) -> int:
    """Time the candidates of all kernels, or of those named, and write the best."""
    import torch

    from rmt.bench.tune import cuda_times

    for name in (name for name in settings if name != "device"):
        raise ConfigError(
            f"{name} has no effect on --tune, which measures kernels by themselves; leave it out"
        )
    if not torch.cuda.is_available() or settings.get("device") == "cpu":
        raise ConfigError("tune measures kernels on a GPU, and there is none here; leave it out")
    kernels, table = tunable_kernels()
    tuned = tune_kernels(names, kernels, table, cuda_times)
    return keep(torch.cuda.get_device_name(), tuned)


def tunable_kernels() -> tuple[Sequence[TunedKernel], Table]:
    """The kernels and the table that they take their constants from."""
    from rmt.bench.tunable import tunable
    from rmt.gpu.tiles import TILES

    return tunable(), TILES


def tune_kernels(names: Sequence[str], kernels: Sequence[TunedKernel], table: Table, timer: Timer) -> Table:
    """The table with the fastest constants of the kernels that were named, or of all; prints every trial."""
    from rmt.bench.tune import best, trials

    known = {kernel.name: kernel for kernel in kernels}
    for name in names:
        if name not in known:
            raise unknown("kernel", name, known)
    tuned = {name: dict(constants) for name, constants in table.items()}
    for name in names or known:
        tried = []
        for trial in trials(known[name], table, timer):
            tried.append(trial)
            print(line(name, trial), flush=True)
        tuned[name] = dict(best(tried).constants)
        print(f"{name}  best: {spoken(tuned[name])}", flush=True)
    return tuned


def keep(card: str, tuned: Table) -> int:
    import torch

    from rmt.gpu.tiles_file import write_tiles
    from rmt.train.log import environment

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"written: {write_tiles(card, tuned, environment(device))}")
    return 0


def line(name: str, trial: Trial) -> str:
    """A trial: constants, µs of a call, spread; which are the current ones."""
    mark = "  (current)" if trial.current else ""
    if trial.time is None:
        return f"{name}  {spoken(trial.constants)}  failed: {trial.failure}"
    median, low, high = (f"{1e6 * seconds:.1f}" for seconds in trial.time)
    return f"{name}  {spoken(trial.constants)}  {median} µs  {low} to {high}{mark}"


def spoken(constants: Mapping[str, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in constants.items())
