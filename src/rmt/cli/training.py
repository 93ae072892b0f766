"""What commands that train have in common: options of a run folder, short flags for settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rmt.cli.front import Invocation, TrustOptions
from rmt.config import Interval, option, to_dict, value_in
from rmt.location import require_trust
from rmt.train.trackers import TrackerName

CLASSES = {"task.name", "model.memory.kind", "kind"}  # settings that can name a class

MAX_SEEDS = 4096  # each has a model and a folder

# settings whose default is that of a recipe, a size, a task or a model
VARYING = (
    "task.segment_length",
    "task.length",
    "task.source",
    "model.vocabulary",
    "model.cutoffs",
    "model.layers",
    "model.heads",
    "model.head_width",
    "model.width",
    "model.inner_width",
    "model.dropout",
    "model.norm",
    "model.init",
    "model.output",
    "model.memory.size",
    "model.memory.write",
    "model.memory.recurrent",
    "model.memory.init",
    "model.memory.sees_cache",
    "model.cache.size",
    "model.cache.scope",
    "bptt.depth",
    "bptt.schedule",
    "bptt.replay_from",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.beta2",
    "optimizer.clip",
    "rate.schedule",
    "rate.warmup",
    "rate.minimum",
    "rate.patience",
    "curriculum.over",
    "curriculum.promote_at",
    "curriculum.until",
    "curriculum.start",
    "curriculum.growth",
    "train.batch",
    "train.steps",
    "train.evaluate_every",
    "train.evaluate_batch",
    "train.evaluate_samples",
    "train.save_every",
    "threads",
)


@dataclass(frozen=True, kw_only=True)
class RunFolderOptions(TrustOptions):
    """Where a run goes, and how often it is made."""

    out: str | None = option(None, "run folder; none = runs/ and a name made of the settings")
    restart: bool = option(False, "delete what the run wrote, and start anew")
    seeds: int = option(
        1, "so many seeds, from --seed on, each in a folder of its own", Interval(1, MAX_SEEDS)
    )
    log: TrackerName | None = option(None, "also hand every logged number to this program")
    quiet: bool = option(False, "print the result only")


def require_trusted_classes(invocation: Invocation[Any]) -> None:
    """Raise for a class that only the config file names: its code would run."""
    named = to_dict(invocation.options) | invocation.settings
    for name in invocation.from_file & CLASSES:
        require_trust(str(value_in(named, name)), name, invocation.config or "")


def refuse_settings_of_another(invocation: Invocation[Any]) -> None:
    """Raise for a config file with what another recipe, size or scale decided than the command line names."""
    from rmt.experiments import file_settings

    file_settings.refuse_settings_of_another(
        invocation.settings, invocation.replaced, invocation.from_file, invocation.config or ""
    )
