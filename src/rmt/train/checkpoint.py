"""Checkpoints: safetensors with checksums, written whole or not at all, the newest K and the best."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rmt.core.model import SegmentModel
from rmt.errors import CheckpointError
from rmt.jsonfile import parse_json
from rmt.location import require_trust, trusting
from rmt.partial import sweep
from rmt.seal import checksum, newest_whole, record_checksum
from rmt.store import whole_folder, write_whole, writing
from rmt.train.folder import CHECKPOINTS
from rmt.train.stored import known_length, load_config
from rmt.train.weights import current_names, require_fit

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
        self.folder, self.keep = run / CHECKPOINTS, keep

    def save(self, step: int, snapshot: Snapshot, best: bool) -> None:
        """Write step_N whole: a killed run never leaves half of one."""
        name = f"step_{step}"
        with writing(self.folder):
            self.folder.mkdir(exist_ok=True)
        with whole_folder(self.folder / name) as partial:
            write_parts(partial, snapshot)
        self.point("last", name)
        if best:
            self.point("best", name)
        self.prune()

    def point(self, pointer: str, name: str) -> None:
        write_whole(self.folder / pointer, name + "\n")

    def named(self, pointer: str) -> str:
        """The checkpoint that `last` or `best` names, or nothing."""
        path = self.folder / pointer
        text = path.read_text(errors="replace").strip() if path.is_file() else ""
        return text if re.fullmatch(r"step_\d+", text) else ""

    def chosen(self) -> str:
        """The checkpoint that stands for the run: its best, else its last."""
        for pointer in ("best", "last"):
            if name := self.named(pointer):
                return name
            if (self.folder / pointer).exists():
                raise CheckpointError(
                    f"{str(self.folder / pointer)!r} is damaged: it names no checkpoint; name one of "
                    f"{self.folder}, or copy it from another copy of the run"
                )
        return ""

    def steps(self) -> list[int]:
        """The steps there are checkpoints of, newest first."""
        numbers = (path.name.removeprefix("step_") for path in self.folder.glob("step_*"))
        return sorted((int(number) for number in numbers if number.isdigit()), reverse=True)

    def prune(self) -> None:
        """Delete all but the newest K and the best of each of them: any of them can be gone on from."""
        newest = self.steps()[: self.keep]
        kept = {*newest, *(self.best_at(step) for step in newest)}
        for step in self.steps()[self.keep :]:
            if step not in kept and f"step_{step}" != self.named("best"):
                self.remove(step)

    def best_at(self, step: int) -> int:
        """The best step so far as a checkpoint says it; 0 where it says none."""
        try:
            return int(
                parse_json((self.folder / f"step_{step}" / "trainer.json").read_text())["trainer"][
                    "best_step"
                ]
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return 0

    def remove(self, step: int) -> None:
        """Delete a checkpoint."""
        with writing(self.folder):
            shutil.rmtree(self.folder / f"step_{step}")

    def clear(self) -> None:
        """Delete all checkpoints; what others have put beside them stays, and so does the folder then."""
        sweep(self.folder)
        for step in self.steps():
            shutil.rmtree(self.folder / f"step_{step}", ignore_errors=True)
        for pointer in ("last", "best"):
            (self.folder / pointer).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def rewind(self, step: int, best: int) -> None:
        """Go back to checkpoint `step` (0: to none), when `best` was the best: later ones are damaged."""
        sweep(self.folder)
        for later in self.steps():
            if later > step:
                self.remove(later)
        for pointer, number in (("last", step), ("best", best)):
            if (self.folder / f"step_{number}").exists():
                self.point(pointer, f"step_{number}")
            elif not (self.folder / self.named(pointer)).exists():
                (self.folder / pointer).unlink(missing_ok=True)

    def newest(self, warn: Callable[[str], None], last: float = math.inf) -> Snapshot | None:
        """The newest checkpoint up to step `last` that is whole; damaged ones are named and passed over."""
        folders = (self.folder / f"step_{step}" for step in self.steps() if step <= last)
        return newest_whole(folders, load_parts, warn, "checkpoint")


def write_parts(folder: Path, snapshot: Snapshot) -> None:
    """The files of one checkpoint; trainer.json has the checksums of all of them, its own content's too."""
    for part in PARTS:
        tensors = getattr(snapshot, part)
        save_tensors(
            folder / f"{part}.safetensors",
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        )
    checksums = {part: checksum(folder / f"{part}.safetensors") for part in PARTS}
    checksums["trainer"] = record_checksum(snapshot.trainer)
    record = {"checksums": checksums, "trainer": snapshot.trainer}
    (folder / "trainer.json").write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")


def save_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """A file of tensors."""
    with system_errors(path):
        save_file(tensors, path)


@contextmanager
def system_errors(path: Path) -> Iterator[None]:
    """What the system has against writing is the error it is elsewhere, whichever library has met it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # tokenizers raises no class of its own
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None and not isinstance(error, SafetensorError):
            raise
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code), str(path)) from None


def load_parts(folder: Path) -> Snapshot:
    """A checkpoint whose every byte is as it was written."""
    try:
        record = parse_json((folder / "trainer.json").read_text())
        trainer, checksums = record["trainer"], dict(record["checksums"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"checkpoint {folder} is damaged: trainer.json cannot be read ({error})"
        ) from None
    if checksums.get("trainer") != record_checksum(trainer):
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
    name = path.resolve().name if path != run else checkpoints.chosen()
    if not name:
        raise CheckpointError(f"run {str(run)!r} has no checkpoint yet; train it further with rmt train")
    with trusting(trust):
        require_trust(config.model.memory.kind, "model.memory.kind", run)
    try:
        saved = load_parts(checkpoints.folder / name)
    except CheckpointError as error:
        raise CheckpointError(f"{error}; name another folder in {checkpoints.folder}") from None
    weights = current_names(saved.model)
    require_fit(config.model, saved, str(run / "config.yaml"))
    model = SegmentModel(config.model)
    model.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    model.segment_length = known_length(run)
    return model.eval()
