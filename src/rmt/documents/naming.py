"""The name of a fine-tuning run's folder that nobody named: what is special about the run."""

from __future__ import annotations

from pathlib import Path

from rmt.config import changed, to_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.language_config import LanguageConfig
from rmt.documents.stored import load_settings
from rmt.errors import RMTError
from rmt.train.folder import seed_folder
from rmt.train.names import suffix

NAMED = {"data", "backbone", "segments", "memory", "seed"}  # they stand in every name
# where a run is trained, watched and stored: no sweep is over these
UNNAMED = {"device", "path", "overlong", "checkpoint", "at_once", "evaluate_every"}
RUN_OF_MANY = {"seed", "fold"}  # in these the runs of one command differ
AnyTuningConfig = FinetuneConfig | LanguageConfig


def tuning_folder(config: AnyTuningConfig, seeds: int = 1) -> Path:
    """runs/ and a name made of the settings; where an earlier release made such a run, the name it took."""
    plain = plain_name(config)
    former = Path("runs") / f"{plain}-{config.seed}"
    if any(is_like(path.parent, config) for path in former.rglob("config.yaml")):
        return former
    special = {name: value for name, value in changed(config).items() if name not in NAMED | UNNAMED}
    ending = f"-{config.seed}" if seeds == 1 else ""
    return Path("runs") / f"{plain}{suffix(special, type(config))}{ending}"


def member_folder(top: Path, seed: int) -> Path:
    """Where one of many seeds lies in a command's folder; one that an earlier release made stays there."""
    former = top / f"seed_{seed}"
    return former if former.is_dir() else seed_folder(top, seed)


def plain_name(config: AnyTuningConfig) -> str:
    """Data, backbone, segments and memory, which were the whole name up to release 0.1."""
    data, backbone = Path(config.data).stem, Path(config.backbone).name
    words = (data, backbone, *(["lm"] if config.task == "lm" else []), config.segments, config.memory)
    return "-".join(map(str, words))


def is_like(folder: Path, config: AnyTuningConfig) -> bool:
    """Whether a folder has a run of this configuration, whatever its seed and fold."""
    try:
        stored = load_settings(folder)
    except RMTError:  # whatever it holds, it is not this
        return False
    free = RUN_OF_MANY | ({"precision"} if config.precision == "auto" else set())
    return all(stored.get(name) == value for name, value in to_dict(config).items() if name not in free)
