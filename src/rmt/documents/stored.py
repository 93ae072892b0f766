"""The configuration in the folder of a fine-tuning run: format, checksum, and the names of older releases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from rmt.config import check, leaves, plain
from rmt.documents.config import FinetuneConfig
from rmt.documents.kinds import TaskSettings
from rmt.documents.language_config import LanguageConfig
from rmt.errors import ConfigError
from rmt.precision import AskedPrecision
from rmt.seal import SEAL, unsealed
from rmt.train.stored import EDITED, format_of, require_all, settings_in
from rmt.yamlfile import load_yaml

SEALED_SINCE = 3  # formats of config.yaml with a checksum; folders of fine-tuning had no format before it
# what runs of release 17fc2a8 called them
OLD_NAMES = {"rate": "lr", "memory_rate": "memory_lr", "decay": "weight_decay", "scale": "memory_scale"}
ADDED = {"cache": 6, "sink": 6}  # fields that are newer than that, and their format
BEFORE = {"cache": 0}  # what they were before, where that is not the default of today
OLD_PRECISIONS = {"float32": "32-true", "bfloat16": "bf16-mixed"}


def load_settings(folder: Path) -> dict[str, Any]:
    """The settings of the run in a folder, of whatever task, by their names of today.

    What the commit that wrote them did not know has its default. Where no checksum proves that nothing else
    is missing, a field that is missing is damage.
    """
    path = folder / "config.yaml"
    values = load_yaml(path)
    kind = LanguageConfig if values.get("task") == "lm" else FinetuneConfig
    fields = {leaf.name: plain(leaf.default) for leaf in leaves(kind)}
    version = format_of(values, path)
    if version >= SEALED_SINCE and SEAL not in values:
        require_all(values, (name for name in fields if ADDED.get(name, 0) <= version), path)
    return {**fields, **BEFORE, **renamed(settings_in(unsealed(values, path, EDITED), path))}


def renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored run by the names that they have now."""
    current = {OLD_NAMES.get(name, name): value for name, value in settings.items()}
    precision = current.get("precision")
    return {**current, "precision": OLD_PRECISIONS.get(str(precision), precision)}


def stored_precision(folder: Path) -> AskedPrecision:
    """The number format of the run in a folder; auto where none was written down."""
    settings = load_settings(folder) if (folder / "config.yaml").exists() else {}
    return cast(AskedPrecision, check(settings.get("precision") or "auto", AskedPrecision, "precision"))


def run_task(folder: Path) -> TaskSettings:
    """What the run in a folder has learned; classes where nothing says otherwise."""
    settings = load_settings(folder) if (folder / "config.yaml").exists() else {}
    if settings.get("task") == "lm":
        raise ConfigError(
            f"{str(folder)!r} is a language model, which labels no documents; use it with: rmt export "
            f"{folder / 'model'}, or AutoModelForCausalLM.from_pretrained"
        )
    return TaskSettings(
        name=settings.get("task", TaskSettings().name), answer=settings.get("answer", TaskSettings().answer)
    )
