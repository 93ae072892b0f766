"""A run folder: made, resumed, finished, or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rmt.config import leaves, value_of
from rmt.errors import ConfigError, RMTError
from rmt.precision import AskedPrecision
from rmt.seal import NotWhole, checksum, load_record, sealed
from rmt.store import write_json
from rmt.tasks.task import Task
from rmt.text.tokenizer import has_tokenizer, tokenizer_file, write_tokenizer
from rmt.train.checkpoint import data_fingerprint
from rmt.train.config import RunConfig, build_task
from rmt.train.deterministic import deterministic
from rmt.train.device import decided, device_of, precision_to_train
from rmt.train.divergence import Diverged
from rmt.train.ensemble import Ensemble, require_one_process, require_stackable
from rmt.train.folder import (
    CHECKPOINTS,
    REMEDY,
    delete_written,
    has_lost_configuration,
    load_result,
    other_run,
    prepared,
    seed_folder,
)
from rmt.train.log import Clock
from rmt.train.loop import Loop, Observer
from rmt.train.processes import all_needed, is_first
from rmt.train.stored import TASK_FILE, load_config

WRITTEN = (
    CHECKPOINTS,
    "result.json",
    "metrics.jsonl",
    "config.yaml",
    "vocabulary.json",
    "tokenizer.json",
    TASK_FILE,
)


def train(
    config: RunConfig, folder: Path, observer: Observer, restart: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of a run in `folder`, and whether it was finished already.

    The folder is touched only when all settings have proved possible.
    """
    with ExitStack() as held, all_needed():
        held.enter_context(deterministic(config.deterministic, device_of(config.device)))
        with writable(folder):
            refuse_many_seeds(folder)
            config = settled(config, stored_precision(folder, restart))
            if result := finished(config, folder, restart):
                return result, True
            loop = Loop(config, folder, observer)
            held.enter_context(opened(loop, restart))
        return loop.run(), False


def train_seeds(
    config: RunConfig, folder: Path, observers: Sequence[Observer], restart: bool = False
) -> list[dict[str, Any]]:
    """The results of as many seeds as there are observers, from `config.seed` on, by one process.

    Each has a run folder of its own, `folder`/seed-N, as if it were trained alone. They are trained at once;
    in a curriculum, where each goes on when it has earned it, one after the other.
    """
    require_one_process()
    if (folder / "config.yaml").exists() or has_lost_configuration(folder):
        raise ConfigError(f"out={str(folder)!r} holds a single run; name another --out for many seeds")
    configs = [replace(config, seed=config.seed + number) for number in range(len(observers))]
    folders = [seed_folder(folder, seed_config.seed) for seed_config in configs]
    if config.curriculum.over != "none":
        configs = settled_together(configs, folders, restart)
        return train_in_turn(zip(configs, folders, observers, strict=True), restart)
    require_stackable(config)
    clock = Clock()
    with ExitStack() as held:
        held.enter_context(deterministic(config.deterministic, device_of(config.device)))
        with writable(folder):
            configs = settled_together(configs, folders, restart)
            results = [finished(*run, restart) for run in zip(configs, folders, strict=True)]
            loops = [
                Loop(seed_config, run_folder, observer, clock)
                for seed_config, run_folder, observer, result in zip(
                    configs, folders, observers, results, strict=True
                )
                if not result
            ]
            require_same_precision(loops)
            for loop in loops:
                held.enter_context(opened(loop, restart))
        trained = iter(Ensemble(loops).run())
        return [result or next(trained) for result in results]


def train_in_turn(
    runs: Iterable[tuple[RunConfig, Path, Observer]], restart: bool = False
) -> list[dict[str, Any]]:
    """The results of runs, one after the other; one that diverges is named when the others are done."""
    results, diverged = [], None
    for run in runs:
        try:
            results.append(train(*run, restart=restart)[0])
        except Diverged as error:
            diverged = diverged or error
    if diverged is not None:
        raise diverged
    return results


def stored_precision(folder: Path, restart: bool) -> AskedPrecision:
    """The number format of the run in a folder; auto where there is none that goes on."""
    if restart or not (folder / "config.yaml").exists():
        return "auto"
    return load_config(folder).precision


def settled(config: RunConfig, stored: AskedPrecision) -> RunConfig:
    """The configuration with its number format decided: auto is what is `stored`, else up to the device."""
    return replace(config, precision=precision_to_train(config.precision, stored, config.device))


def settled_together(configs: Sequence[RunConfig], folders: Sequence[Path], restart: bool) -> list[RunConfig]:
    """The same for runs that are trained at once: where some go on, those that are new do as they do."""
    stored = [stored_precision(folder, restart) for folder in folders]
    shared: AskedPrecision = next((precision for precision in stored if precision != "auto"), "auto")
    return [
        settled(config, shared if precision == "auto" else precision)
        for config, precision in zip(configs, stored, strict=True)
    ]


def require_same_precision(loops: Sequence[Loop]) -> None:
    """Refuse unfinished seeds of several number formats: they cannot be stacked."""
    seeds = {loop.config.precision: loop.config.seed for loop in loops}
    if len(seeds) > 1:
        formats = " and ".join(f"precision={name} (seed {seed})" for name, seed in seeds.items())
        raise ConfigError(f"{formats} do not go together; train these seeds one by one with --seed")


def finished(config: RunConfig, folder: Path, restart: bool) -> dict[str, Any]:
    """The result that a folder has of this very configuration, or nothing."""
    if restart or not (folder / "config.yaml").exists():
        return {}
    refuse_other(config, folder)
    return load_result(folder)


@contextmanager
def opened(loop: Loop, restart: bool) -> Iterator[None]:
    """Hold the run folder of a loop, with its configuration in it; only the first process has to."""
    if not is_first():
        yield
        return
    with prepared(loop.folder, loop.config, discard if restart else None):
        write_task(loop)
        yield


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Say in a line what the system has against a run folder."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"out={str(folder)!r} cannot be written ({error.strerror}); name another with --out"
        ) from None


def write_task(loop: Loop) -> None:
    """Write all that is needed to use the run without its task."""
    folder, task = loop.folder, loop.task
    is_complete = has_tokenizer(folder) and (folder / TASK_FILE).is_file()
    if is_complete or data_fingerprint(folder) not in ("", task.fingerprint):
        return  # whatever the data are now, a run keeps the tokenizer it has learned with
    write_tokenizer(folder, task.tokenizer())
    tokenizer = {"tokenizer_sha256": checksum(tokenizer_file(folder))}
    write_json(folder / TASK_FILE, sealed({**description(task, loop.config), **tokenizer}))


def description(task: Task, config: RunConfig) -> dict[str, Any]:
    """What task.json says."""
    return {
        "name": task.name,
        "version": task.version,
        "vocabulary": task.vocabulary,
        "segment_length": task.tokens_per_segment(config.task.segments),
        "fingerprint": task.fingerprint,
        "metric": task.metric,
    }


def discard(folder: Path) -> None:
    """Delete what a run of `rmt train` wrote."""
    delete_written(folder, WRITTEN, is_run)


def is_run(folder: Path) -> bool:
    """Whether `rmt train` wrote a folder, whole or not."""
    try:
        load_config(folder)
    except NotWhole:
        return True
    except RMTError:
        return False
    return True


def refuse_many_seeds(folder: Path) -> None:
    """Raise if the folder holds run folders of many seeds: a single run would lock them out."""
    if not (folder / "config.yaml").exists() and any(folder.glob("seed-*/config.yaml")):
        raise ConfigError(
            f"out={str(folder)!r} holds many seeds; say how many with --seeds, or name another --out"
        )


def refuse_other(config: RunConfig, folder: Path) -> None:
    """Raise if the folder belongs to another configuration, naming the first difference.

    The same data may be elsewhere now.
    """
    for name, old, new in differences(decided(load_config(folder)), config):
        if name == "task.data" and build_task(config.task).fingerprint == stored_fingerprint(folder):
            continue
        raise other_run(folder, name, old, new)


def stored_fingerprint(folder: Path) -> str | None:
    """That of the data which the run in a folder learns from; none where it does not say."""
    if fingerprint := data_fingerprint(folder):
        return fingerprint
    task = load_record(folder / TASK_FILE, REMEDY) if (folder / TASK_FILE).is_file() else {}
    return task.get("fingerprint") or None


def differences(stored: RunConfig, config: RunConfig) -> Iterator[tuple[str, Any, Any]]:
    """The settings in which two runs differ, each with both values."""
    for leaf in leaves(RunConfig):
        if leaf.name == "strategy":
            continue  # how processes share a model does not change it
        old, new = value_of(stored, leaf.name), value_of(config, leaf.name)
        if old != new:
            yield leaf.name, old, new


def facts(config: RunConfig, segment_length: int) -> list[str]:
    """A run in a few words for a reader: model, task, sizes, seed."""
    model = config.model
    sizes = {"memory": model.memory.size, "cache": model.cache.size}
    return [
        config.preset,
        f"{config.task.name}, segments of {segment_length} tokens",
        f"{model.layers} layers × {model.heads} heads",
        *(f"{name} {size}" for name, size in sizes.items() if size),
        f"seed {config.seed}",
    ]
