"""The runs of a cell of `rmt finetune`: a trial of a rate, seeds, and what a report needs of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rmt.config import from_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.finetune import finetune
from rmt.documents.hyperpartisan import load_hyperpartisan
from rmt.experiments.cells import PlannedCell
from rmt.experiments.holding import NewObserver, RunPart
from rmt.experiments.settings import Settings, merge
from rmt.experiments.trained_runs import HARDWARE, SLIM
from rmt.experiments.trials import RateTrial
from rmt.train.folder import seed_folder


class DocumentRuns:
    """What fine-tunes a cell of `rmt finetune` in its folder; more F1 is better."""

    sign = 1

    def __init__(self, cell: PlannedCell, folder: Path, new_observer: NewObserver):
        self.cell, self.folder, self.new_observer = cell, folder, new_observer
        self.corpus = load_hyperpartisan(cell.settings["path"])

    def tried(self, rate: float, run: Path) -> RateTrial:
        """Fine-tune seed 0 with a rate."""
        result = self.result(self.cell.with_rate(rate), 0, run)
        return RateTrial(rate, run, result["metrics"]["valid"]["f1"], 0.0)

    def of_seeds(self, settings: Settings, seeds: Sequence[int]) -> list[RunPart]:
        """The runs of seeds, each a part."""
        runs = {seed_folder(self.folder, seed): seed for seed in seeds}
        return [RunPart([run], partial(self.result, settings, seed, run)) for run, seed in runs.items()]

    def result(self, settings: Settings, seed: int, run: Path) -> dict[str, Any]:
        config = from_dict(FinetuneConfig, merge(settings, {"seed": seed}))
        return finetune(config, self.corpus, run, self.new_observer(run.name))[0]

    @staticmethod
    def slim(run: Path, result: dict[str, Any]) -> dict[str, Any]:
        """What a report needs of a fine-tuning run."""
        return {
            "run": run.name,
            **{name: result[name] for name in SLIM if name in result},
            **{name: result["environment"][name] for name in HARDWARE},
            "curve": [],
            "by_segment": {},
        }
