"""Whether a configuration goes with its class of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmt.config import between, leaves, value_of
from rmt.errors import ConfigError
from rmt.train.config import RunConfig, check_settings

if TYPE_CHECKING:
    from rmt.tasks.task import Task


def check_run(config: RunConfig, task: type[Task]) -> None:
    """Refuse what does not go with a class of tasks."""
    check_settings(config.task, task)
    values = {leaf.name: leaf for leaf in leaves(RunConfig)}
    for name in task.without_effect:
        value = value_of(config, name)
        if value != values[name].default:
            raise ConfigError(f"{name}={value} has no effect on task {task.name!r}; leave it out")
    if config.bptt.schedule not in task.schedules:
        raise ConfigError(
            f"bptt.schedule={config.bptt.schedule} does not go with task {task.name!r}, which has "
            f"{' and '.join(task.schedules)}: its sequences never end"
        )
    if task.generates and config.model.positions == "relative-lm-rmt":
        raise ConfigError(
            "model.positions=relative-lm-rmt cannot generate freely and so cannot be evaluated; "
            "train with relative (it is for importing checkpoints of the original code)"
        )
    if config.train.target is not None and task.sign > 0:
        between("train.target", config.train.target, 0, 1, closed=True)
    if config.train.test_samples is not None:
        require_samples("test_samples", config.train.test_samples, task, "test")
    if config.train.evaluate_cache is not None and not config.model.cache.size:
        raise ConfigError(
            f"train.evaluate_cache={config.train.evaluate_cache} has no effect: the {config.preset} model "
            "has no cache; leave it out"
        )


def require_samples(name: str, samples: int, task: type[Task], split: str) -> None:
    """Refuse to measure more examples of a split than it has."""
    if samples > task.sizes[split]:
        raise ConfigError(
            f"train.{name}={samples} is more than the {split} split of task {task.name!r} has: "
            f"{task.sizes[split]}; ask for fewer, or leave it out"
        )
