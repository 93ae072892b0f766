"""Checkpoints: safetensors with checksums, written whole or not at all, the newest K and the best."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError
from rmt.jsonfile import parse_json
from rmt.location import require_trust, trusting
from rmt.train.log import write_whole
from rmt.train.stored import load_config

PARTS = ("model", "optimizer", "state")


class Snapshot(NamedTuple):
    """Everything a run needs to go on as if nothing had happened."""

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    trainer: dict[str, Any]


class Checkpoints:
    """The folder `checkpoints/` of a run: step_N/, and the files `last` and `best` that name one of them."""

    def __init__(self, run: Path, keep: int = 2):
        self.folder, self.keep = run / "checkpoints", keep

    def save(self, step: int, snapshot: Snapshot, best: bool) -> None:
        """Write step_N under another name, then rename it: a killed run never leaves half of one."""
        name = f"step_{step}"
        partial = self.folder / f".{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_parts(partial, snapshot)
        shutil.rmtree(self.folder / name, ignore_errors=True)
        partial.rename(self.folder / name)
        self.point("last", name)
        if best:
            self.point("best", name)
        self.prune()

    def point(self, pointer: str, name: str) -> None:
        write_whole(self.folder / pointer, name + "\n")

    def named(self, pointer: str) -> str:
        """The checkpoint that `last` or `best` names, or nothing."""
        path = self.folder / pointer
        return path.read_text().strip() if path.exists() else ""

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, newest first."""
        numbers = (path.name.removeprefix("step_") for path in self.folder.glob("step_*"))
        return sorted((int(number) for number in numbers if number.isdigit()), reverse=True)

    def prune(self) -> None:
        """Delete all but the newest K and the best."""
        for step in self.steps()[self.keep :]:
            if f"step_{step}" != self.named("best"):
                shutil.rmtree(self.folder / f"step_{step}")

    def rewind(self, step: int, best: int) -> None:
        """Go back to checkpoint `step` (0: to none), when `best` was the best: later ones are damaged."""
        for later in self.steps():
            if later > step:
                shutil.rmtree(self.folder / f"step_{later}")
        for pointer, number in (("last", step), ("best", best)):
            if (self.folder / f"step_{number}").exists():
                self.point(pointer, f"step_{number}")
            elif not (self.folder / self.named(pointer)).exists():
                (self.folder / pointer).unlink(missing_ok=True)

    def newest(self, warn: Callable[[str], None]) -> Snapshot | None:
        """The newest checkpoint that is whole; damaged ones are named and passed over."""
        for step in self.steps():
            try:
                return load_parts(self.folder / f"step_{step}")
            except CheckpointError as error:
                warn(f"{error}; going back to the checkpoint before it")
        return None


def write_parts(folder: Path, snapshot: Snapshot) -> None:
    """The files of one checkpoint, flushed to the disk."""
    for part in PARTS:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in getattr(snapshot, part).items()},
            folder / f"{part}.safetensors",
        )
    checksums = {part: checksum(folder / f"{part}.safetensors") for part in PARTS}
    checksums["trainer"] = hashlib.sha256(json.dumps(snapshot.trainer, sort_keys=True).encode()).hexdigest()
    record = {"checksums": checksums, "trainer": snapshot.trainer}
    (folder / "trainer.json").write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def load_parts(folder: Path) -> Snapshot:
    """A checkpoint whose every byte is as it was written."""
    try:
        record = parse_json((folder / "trainer.json").read_text())
        trainer, checksums = record["trainer"], dict(record["checksums"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged: trainer.json cannot be read ({error})"
        ) from None
    written = hashlib.sha256(json.dumps(trainer, sort_keys=True).encode()).hexdigest()
    if checksums.get("trainer") != written:
        raise CheckpointError(f"checkpoint {folder} is damaged: trainer.json does not match its checksum")
    parts = {part: load_part(folder / f"{part}.safetensors", checksums.get(part)) for part in PARTS}
    return Snapshot(**parts, trainer=trainer)


def load_part(path: Path, expected: str | None) -> dict[str, Tensor]:
    """The tensors of one file of a checkpoint."""
    if not path.exists():
        raise CheckpointError(f"checkpoint {path.parent} is damaged: {path.name} is missing")
    if checksum(path) != expected:
        raise CheckpointError(f"checkpoint {path.parent} is damaged: {path.name} does not match its checksum")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f"checkpoint {path.parent} is damaged: {path.name}: {error}") from None


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run_folder(path: str | Path) -> Path:
    """The run folder of a run, or of one of its checkpoints."""
    path = Path(path)
    return path.resolve().parent.parent if (path / "trainer.json").exists() else path


def data_fingerprint(run: Path) -> str:
    """The fingerprint of the data that a run was trained on, or nothing where there is none."""
    checkpoints = Checkpoints(run)
    for step in checkpoints.steps():
        try:
            record = parse_json((checkpoints.folder / f"step_{step}" / "trainer.json").read_text())
            return str(record["trainer"].get("data", ""))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # reading the checkpoint itself says what is wrong with it
    return ""


def load(path: str | Path, trust: bool = False) -> SegmentModel:
    """The trained model of a run (its best checkpoint, else its last) or of one checkpoint folder.

    `trust` lets a class run that the folder names as its kind of memory.
    """
    path, run = Path(path), run_folder(path)
    config = load_config(run)
    checkpoints = Checkpoints(run)
    name = path.resolve().name if path != run else checkpoints.named("best") or checkpoints.named("last")
    if not name:
        raise CheckpointError(f"run {str(run)!r} has no checkpoint yet; train it further with rmt train")
    with trusting(trust):
        require_trust(config.model.memory.kind, "model.memory.kind", run)
    model = SegmentModel(config.model)
    try:
        weights = load_parts(checkpoints.folder / name).model
    except CheckpointError as error:
        raise CheckpointError(f"{error}; name another folder in {checkpoints.folder}") from None
    model.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return model.eval()
