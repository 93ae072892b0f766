"""The models of a comparison at one position: the same task, budget, rates; each with its memory or cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from rmt.experiments.cells import PlannedCell
from rmt.experiments.settings import Settings, merge

RECURRENT = ("rmt", "transformer_xl")
MODELS = (*RECURRENT, "memory_transformer", "baseline")


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where models are compared: everything that they share."""

    exhibit: str
    task: str
    length: int | None = None  # symbols; none = the task has no length
    segments: int = 1
    shared: Settings = field(default_factory=dict)
    rates: tuple[float, ...] = ()
    trial_steps: int = 0
    seeds: int = 1  # of RMT and Transformer-XL
    other_seeds: int = 0  # of the others; 0 = as many

    @property
    def label(self) -> str:
        return f"{self.task}-{self.length}" if self.length else self.task

    def cells(self, models: tuple[str, ...], size: int) -> Iterator[PlannedCell]:
        """A cell for each model, with memory or a cache of a size."""
        for model in models:
            yield self.cell(model, size)

    def cell(self, model: str, size: int, settings: Settings | None = None, special: str = "") -> PlannedCell:
        """The cell of a model; `special` names the settings that only it has."""
        task = {"name": self.task, "segments": self.segments} | (
            {"length": self.length} if self.length else {}
        )
        state = f"-{size}" if model != "baseline" else ""
        return PlannedCell(
            name=f"{self.label}-{self.segments}-{model}{state}{special}",
            exhibits=(self.exhibit,),
            settings=merge({"task": task}, self.shared, carried(model, size), settings or {}),
            rates=self.rates,
            trial_steps=self.trial_steps,
            seeds=self.seeds if model in RECURRENT else self.other_seeds or self.seeds,
        )

    def cut(self, segments: int) -> Position:
        return replace(self, segments=segments)


def carried(model: str, size: int) -> Settings:
    """A model with as much memory, or as large a cache."""
    parts: dict[str, Settings] = {
        "rmt": {"memory": {"size": size}},
        "memory_transformer": {"memory": {"size": size}},
        "transformer_xl": {"cache": {"size": size}},
        "baseline": {},
    }
    return merge({"preset": model}, {"model": parts[model]} if parts[model] else {})


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Language models on one text: the same segments, lanes and updates."""

    exhibits: tuple[str, ...]
    label: str
    shared: Settings
    rates: tuple[float, ...] = ()
    trial_steps: int = 0
    seeds: int = 1

    def cell(
        self, model: str, memory: int = 0, cache: int = 0, settings: Settings | None = None
    ) -> PlannedCell:
        """A model with so much memory and cache; the depth of BPTT and what is special go into its name."""
        sizes = {"memory": memory, "cache": cache}
        parts: Settings = {part: {"size": size} for part, size in sizes.items() if size}
        whole = merge(self.shared, {"preset": model}, {"model": parts} if parts else {}, settings or {})
        bptt = whole.get("bptt", {})
        state = "".join(f"-{size}" for size in sizes.values() if size)
        depth = f"-depth-{bptt['depth']}" if memory and model != "memory_transformer" else ""
        replay = f"-{bptt['replay_from']}" if "replay_from" in bptt else ""
        loss = "-memory-loss" if "memory_loss" in whole.get("train", {}) else ""
        return PlannedCell(
            name=f"{self.label}-{model}{state}{depth}{replay}{loss}",
            exhibits=self.exhibits,
            settings=whole,
            rates=self.rates,
            trial_steps=self.trial_steps,
            seeds=self.seeds,
        )
