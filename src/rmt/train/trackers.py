"""A run handed on to tensorboard, wandb or trackio, each of which is loaded only where it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from rmt.errors import ConfigError

TrackerName = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "rmt"
FOLDER = "tensorboard"  # in the run folder


class Tracker(Protocol):
    """Who takes the numbers of a step."""

    def log(self, numbers: Mapping[str, float], step: int) -> None: ...

    def close(self) -> None: ...


@dataclass
class TensorboardTracker:
    """Event files in the run folder."""

    folder: Path
    settings: Mapping[str, Any]
    writer: Any = None

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        if self.writer is None:  # what an interrupted run wrote from this step on is written again
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder / FOLDER), purge_step=step)
            lines = "\n".join(f"    {name}: {value}" for name, value in self.settings.items())
            self.writer.add_text("settings", lines, step)
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


@dataclass
class OnlineTracker:
    """A project of wandb, or of trackio, which speaks the same words; the run is named after its folder."""

    folder: Path
    settings: Mapping[str, Any]
    service: Any  # the module
    options: Mapping[str, Any] = field(default_factory=dict)
    run: Any = None

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        if self.run is None:
            self.run = self.begin()
        self.run.log(dict(numbers), step=step)

    def begin(self) -> Any:
        """A run of the service."""
        name, settings = str(self.folder), dict(self.settings)
        try:
            return self.service.init(project=PROJECT, name=name, config=settings, **self.options)
        except Exception as error:  # each service has its own, for no account, no network, a full disk
            package = self.service.__name__
            reason = " ".join(str(error).split())
            raise ConfigError(
                f"log={package} cannot begin a run ({reason}); log in, set {package.upper()}_MODE=offline, "
                "or leave --log out: the same command goes on"
            ) from None

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()


def tensorboard_tracker(folder: Path, settings: Mapping[str, Any]) -> Tracker:
    require("tensorboard")
    return TensorboardTracker(folder, settings)


def wandb_tracker(folder: Path, settings: Mapping[str, Any]) -> Tracker:
    options = {"dir": str(folder), "reinit": "create_new", "settings": {"silent": True}}
    return OnlineTracker(folder, settings, require("wandb"), options)


def trackio_tracker(folder: Path, settings: Mapping[str, Any]) -> Tracker:
    return OnlineTracker(folder, settings, require("trackio"))


TRACKERS: dict[str, Callable[[Path, Mapping[str, Any]], Tracker]] = {
    "tensorboard": tensorboard_tracker,
    "wandb": wandb_tracker,
    "trackio": trackio_tracker,
}


def require(package: str) -> Any:
    """A package that may not be installed."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ConfigError(
            f"log={package} needs the package {package}; install it with: pip install {package}"
        ) from None


class TrackedObserver:
    """An observer of a run that also hands every number on to a tracker."""

    def __init__(self, observer: Any, tracker: Tracker):
        self.observer, self.tracker = observer, tracker

    def logged(self, record: dict[str, Any]) -> None:
        self.observer.logged(record)
        self.tracker.log(numbers_of(record, "train"), record["step"])

    def evaluated(self, record: dict[str, Any]) -> None:
        self.observer.evaluated(record)
        self.tracker.log(numbers_of(record, record["split"]), record["step"])

    def tested(self, result: dict[str, Any]) -> None:
        """Hand on what came of the run; a run of documents has several splits."""
        metrics = result["metrics"]
        splits = {split: scores for split, scores in metrics.items() if isinstance(scores, dict)}
        for split, scores in (splits or {result["split"]: metrics}).items():
            self.tracker.log(numbers_of(scores, split), result["steps"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.observer, name)


def numbers_of(record: Mapping[str, Any], group: str) -> dict[str, float]:
    """The numbers of a line of the log, as group/name."""
    numbers = {name: value for name, value in record.items() if isinstance(value, (int, float))}
    return {f"{group}/{name}": value for name, value in numbers.items() if name != "step"}


@contextmanager
def tracked(
    observer: Any, name: TrackerName | None, folder: Path, settings: Mapping[str, Any]
) -> Iterator[Any]:
    """The observer; while this is open, it hands all on to the tracker of that name, if there is one."""
    if name is None:
        yield observer
        return
    tracker = TRACKERS[name](folder, settings)
    try:
        yield TrackedObserver(observer, tracker)
    finally:
        tracker.close()
