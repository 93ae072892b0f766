"""A pretrained decoder with memory learns a text, in a run folder that resumes: text in, model out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.config import to_dict
from rmt.documents.finetune import discard, refuse_difference
from rmt.documents.job import FinetuneObserver
from rmt.documents.language_arms import OTHERS, Arm, PretrainedDecoder, load_decoder
from rmt.documents.language_config import LanguageConfig
from rmt.documents.language_test import Carry, cache_alone, everything, nothing, perplexity_of
from rmt.documents.language_text import load_language_text
from rmt.documents.language_training import LanguageJob, LanguageTraining
from rmt.documents.lora import merged, with_lora
from rmt.documents.stored import load_settings, stored_precision
from rmt.precision import weight_format
from rmt.seal import sealed
from rmt.store import whole_folder, write_json
from rmt.train.checkpoint import Checkpoints, system_errors
from rmt.train.device import device_name, device_of, precision_to_train
from rmt.train.folder import CHECKPOINTS, load_result, prepared
from rmt.train.log import METRICS_FILE, environment

TARGETS = (
    "all-linear"  # matrices that have LoRA beside them: a text of another kind needs more than attention
)


def tune_language(
    config: LanguageConfig, folder: Path, observer: FinetuneObserver, restart: bool = False
) -> tuple[dict[str, Any], bool]:
    """The result of a run in `folder`, and whether it was finished already."""
    stored = "auto" if restart else stored_precision(folder)
    config = replace(config, precision=precision_to_train(config.precision, stored, config.device))
    if not restart and (folder / "config.yaml").exists():
        refuse_difference(load_settings(folder), to_dict(config), folder)
        if result := load_result(folder):
            clear(folder, result)  # where the end was cut short
            return result, True
    run = LanguageRun(config, folder, observer)
    with prepared(folder, config, discard_run if restart else None):
        return run.result(), False


def clear(folder: Path, result: dict[str, Any]) -> None:
    """Delete the checkpoints of a finished run, those of its other arms, too."""
    for part in ("", *(arm for arm in OTHERS if arm in result["metrics"]["test"])):
        Checkpoints(folder / part).clear()


def discard_run(folder: Path) -> None:
    """Delete what a run wrote, its other arms' trainings, too."""
    discard(folder, tuple(f"{arm}/{part}" for arm in OTHERS for part in (CHECKPOINTS, METRICS_FILE)))


class TrainedArm(NamedTuple):
    """What an arm's training has left."""

    perplexities: dict[str, dict[str, float]]  # split: name: perplexity
    steps: int
    seconds: float


class LanguageRun:
    """The arms of one run, trained one after the other."""

    def __init__(self, config: LanguageConfig, folder: Path, observer: FinetuneObserver):
        self.config, self.folder, self.observer = config, folder, observer
        self.device = torch.device(device_of(config.device))
        decoder = load_decoder(config)
        self.arms = decoder.arms(config)
        self.length = self.arms[0].length
        self.text = load_language_text(config.data, decoder.tokenizer)
        self.rows = {split: self.test_rows(split) for split in ("valid", "test")}
        self.family = decoder.model.config.model_type

    def test_rows(self, split: str) -> Tensor:
        """The sequences of a split that are tested, (B, T + 1)."""
        return self.text.rows(split, self.config.test_segments * self.length, self.config.test_tokens)

    def result(self) -> dict[str, Any]:
        """Train and test every arm, and write everything down."""
        config = self.config
        self.observer.note(f"{config.precision} on {device_name(self.device)}")
        self.observer.note(self.arms[0].lengths)
        trained = [self.trained(arm) for arm in self.arms]
        metrics = {
            split: {name: value for arm in trained for name, value in arm.perplexities[split].items()}
            for split in self.rows
        }
        result = {
            "task": config.data,
            "model": f"rmt_{self.family}, {config.segments} {self.arms[0].lengths}",
            "recipe": "finetune",
            "metric": "perplexity",
            "value": metrics["test"]["carried"],
            "split": "test",
            "metrics": metrics,
            "seed": config.seed,
            "steps": trained[0].steps,
            "seconds": trained[0].seconds,
            "samples": len(self.rows["test"]),
            "tested_tokens": self.rows["test"][:, 1:].numel(),
            "config": to_dict(config),
            "environment": environment(self.device),
        }
        write_json(self.folder / "result.json", sealed(result))
        clear(self.folder, result)
        return result

    def trained(self, arm: Arm) -> TrainedArm:
        """An arm, trained from the backbone as it was, and tested; the model with memory is saved."""
        config, folder = self.config, arm.folder(self.folder)
        if not arm.memory:
            self.observer.note(f"{arm.name}, to compare: {arm.lengths}")
        folder.mkdir(exist_ok=True)
        torch.manual_seed(config.seed)
        decoder = load_decoder(config)
        model = decoder.wrapped(arm, config).to(self.device, weight_format(config.precision))
        before = {split: self.perplexities(arm, model, split) for split in self.rows} if arm.memory else {}
        adapted = with_lora(model, config.lora, TARGETS) if config.lora else model
        job = LanguageJob(
            config=config,
            model=adapted,
            text=self.text,
            length=self.length,
            folder=folder,
            observer=self.observer,
        )
        training = LanguageTraining(job)
        training.run(lambda step: self.evaluation(arm, adapted, step * job.tokens_per_step, step))
        after = {split: self.perplexities(arm, adapted, split) for split in self.rows}
        if arm.memory:
            self.save(decoder, merged(adapted))
        perplexities = {
            split: {**{f"{name}_untrained": value for name, value in before.get(split, {}).items()}, **values}
            for split, values in after.items()
        }
        return TrainedArm(perplexities, training.step, training.seconds)

    def evaluation(self, arm: Arm, model: Any, tokens: int, step: int) -> dict[str, Any]:
        """A line of the log: how well the validation text is predicted."""
        values = self.perplexities(arm, model, "valid")
        first = next(iter(values.values()))
        record = {"step": step, "tokens": tokens, "split": "valid", "arm": arm.name}
        return {**record, "perplexity": first, **values}

    def perplexities(self, arm: Arm, model: Any, split: str) -> dict[str, float]:
        """Perplexities of a split by their names: of an arm with memory, by what is carried."""
        carries: dict[str, Carry] = {arm.name: everything}
        if arm.memory:
            carries = {"carried": everything, "reset": nothing}
            if arm.cache.size:
                carries["memory_reset"] = cache_alone(model)
        return {
            name: perplexity_of(
                model, self.rows[split], arm.length, carry=carry, precision=self.config.precision
            )
            for name, carry in carries.items()
        }

    def save(self, decoder: PretrainedDecoder, model: Any) -> None:
        """Model and tokenizer in `model/`, whole or not at all."""
        folder = self.folder / "model"
        with whole_folder(folder) as partial, system_errors(folder):
            model.save_pretrained(partial)
            decoder.tokenizer.save_pretrained(partial)
