"""The configuration in a run folder: its format, its checksum, and what an older one left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rmt.config import from_dict, leaves, to_dict
from rmt.errors import CheckpointError, ConfigError
from rmt.precision import Precision
from rmt.seal import SEAL, NotWhole, load_record, record_checksum, unsealed
from rmt.train.config import RunConfig
from rmt.yamlfile import load_yaml, parse_yaml, write_yaml

TASK_FILE = "task.json"  # what the task of a run says of itself
FORMAT = 6  # of config.yaml; 1 had no key `format` and no tokenizer beside it, 4 names versions of recipes
COMPLETE_SINCE = 2  # formats that have all their fields
# fields that are newer than that, and their format
ADDED = {
    "train.on_nan": 3,
    "train.test_samples": 4,
    "deterministic": 4,
    "model.output": 5,
    "model.cache.sink": 6,
    "curriculum.until": 6,
}
FIRST_GROUPS = ("task", "model", "bptt", "optimizer", "rate", "curriculum", "train")  # every format has them
RESTORE = "copy it from another copy of the run"
EDITED = f"put the old values back, or, if they were changed on purpose, delete its line '{SEAL}: …'"
UNVERSIONED, FIRST_MODERN = "modern", "modern-1"  # a recipe as formats before 4 name it, and as it is now
FORMER_PRECISION: Precision = "32-true"  # where a configuration names none: once it was the default


def load_config(run: str | Path) -> RunConfig:
    """The configuration of a run folder; an older format's missing fields get their defaults."""
    path = Path(run) / "config.yaml"
    require_run(Path(run))
    values = load_yaml(path)
    if "backbone" in values:
        use = (
            f"rmt export {Path(run) / 'model'}" if values.get("task") == "lm" else f"rmt predict {run} FILES"
        )
        raise CheckpointError(f"{str(run)!r} is a run of rmt finetune, not of rmt train; use it with: {use}")
    version = format_of(values, path)
    if version >= COMPLETE_SINCE:
        names = (leaf.name for leaf in leaves(RunConfig) if ADDED.get(leaf.name, 0) <= version)
        require_all(values, names, path)
    settings = settings_in(values, path)
    try:
        config = from_dict(RunConfig, {"precision": FORMER_PRECISION, **settings})
    except ConfigError as error:
        raise ConfigError(f"{str(path)!r}: {error}") from None
    for group in FIRST_GROUPS:
        if group not in values:
            raise NotWhole(f"{str(path)!r} is damaged: {group} is missing; {RESTORE}")
    unsealed(values, path, EDITED)
    return config


def require_run(run: Path) -> None:
    """Raise for what is no run folder, saying what it is."""
    if (run / "config.yaml").is_file():
        return
    if not run.exists():
        raise CheckpointError(f"run {str(run)!r} does not exist; rmt runs lists those that do")
    if not run.is_dir():
        raise CheckpointError(f"{str(run)!r} is a file, not a run; name a folder that rmt train wrote")
    inside = sorted(path.parent.relative_to(run) for path in run.glob("*/config.yaml"))
    if inside:
        raise CheckpointError(
            f"{str(run)!r} is a folder of runs, not a run; name one of them, such as {run / inside[0]}"
        )
    if (run / "config.json").is_file():
        raise CheckpointError(
            f"{str(run)!r} is a pretrained model, not a run of rmt train; load it with from_pretrained, or "
            "look into it with rmt attention --text FILE"
        )
    raise CheckpointError(
        f"{str(run)!r} is not a run: it has no config.yaml; name a folder that rmt train wrote"
    )


def known_length(run: Path) -> int | None:
    """The tokens of a segment where a run folder has them written down, undamaged."""
    try:
        length = load_record(run / TASK_FILE, RESTORE).get("segment_length")
    except NotWhole:
        return None
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else None


def settings_in(values: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """The settings of a user's YAML file, or of the config.yaml of a run, which may be edited there."""
    version = format_of(values, Path(path))
    settings = {name: value for name, value in values.items() if name not in ("format", SEAL)}
    if not all(isinstance(settings.get(group), Mapping) for group in FIRST_GROUPS):
        return settings
    if settings.get("recipe") == UNVERSIONED:  # a user may still name the newest so
        settings["recipe"] = FIRST_MODERN
    return with_former_defaults(settings, version)


def with_former_defaults(settings: Mapping[str, Any], version: int) -> dict[str, Any]:
    """The settings of a run with what its format did not know: as it was then, whatever recipes say now."""
    filled = deepcopy(dict(settings))
    for leaf in leaves(RunConfig):
        if ADDED.get(leaf.name, 0) > version:
            *groups, name = leaf.name.split(".")
            group: Any = filled
            for part in groups:
                group = group.setdefault(part, {}) if isinstance(group, dict) else None
            if isinstance(group, dict):
                group.setdefault(name, leaf.default)
    return filled


def written(config: Any) -> str:
    """The text of config.yaml; its checksum comes early, so that a file cut short still has it."""
    settings = to_dict(config)
    seal = record_checksum(parse_yaml(write_yaml({"format": FORMAT, **settings}), "config.yaml"))
    return write_yaml({"format": FORMAT, SEAL: seal, **settings})


def format_of(values: Mapping[str, Any], path: Path) -> int:
    """The format of a config.yaml; one that is not known is refused."""
    version = values.get("format", 1)
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= FORMAT:
        raise ConfigError(
            f"format={version!r} in {str(path)!r} is not known; this release reads 1 to {FORMAT}"
        )
    return version


def require_all(values: Mapping[str, Any], names: Iterable[str], path: Path) -> None:
    """Raise for the first field that is missing: within a format, that is damage."""
    for name in names:
        group: Any = values
        for part in name.split("."):
            if not isinstance(group, Mapping) or part not in group:
                raise NotWhole(
                    f"{str(path)!r} is damaged: {name} is missing, which format {values['format']} has; "
                    f"{RESTORE}"
                )
            group = group[part]
