"""transformers' Trainer, set up for documents: one schedule, two learning rates, early stopping, a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from torch import Tensor
from torch.nn import functional as F
from transformers import TrainerCallback

from rmt.documents.answering import MARGINS, Answering
from rmt.documents.classification import WrittenClassification
from rmt.documents.job import FinetuneJob
from rmt.documents.resuming import ResumableTrainer, require_learning
from rmt.documents.task import DocumentTask
from rmt.stopping import REQUEST
from rmt.train.processes import is_first
from rmt.train.warmup import warmup_steps

if TYPE_CHECKING:
    from rmt.documents.tuning_config import TuningConfig


class DocumentTraining(ResumableTrainer):
    """What every Trainer of documents does: it goes on where it was, and may begin with short texts."""

    def training_step(self, model: Any, inputs: dict[str, Any], *rest: Any, **more: Any) -> Any:
        return super().training_step(
            model, self.job.curriculum.cut(inputs, self.state.global_step), *rest, **more
        )


class DocumentTrainer(DocumentTraining, transformers.Trainer):
    """Trains a model with a head."""


class AnsweringTrainer(DocumentTraining, transformers.Trainer):
    """Trains a model that answers by a span of the text."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, *rest: Any, **more: Any
    ) -> Any:
        """The loss of a batch, and the spans (B, 2) that answer it, as `rmt predict` would tell them."""
        texts = {name: values for name, values in inputs.items() if name not in self.label_names}
        output = model(**texts)
        first = position_loss(output.start_logits, inputs["start_positions"])
        last = position_loss(output.end_logits, inputs["end_positions"])
        loss = (first + last) / 2
        if not return_outputs:
            return loss
        task, margins = cast(Answering, self.job.task), torch.stack([inputs[name] for name in MARGINS], dim=1)
        spans = task.spans(output, inputs["attention_mask"].bool(), margins.tolist())
        return loss, {"spans": torch.tensor([span for span, _ in spans], device=loss.device)}


class WritingTrainer(DocumentTraining, transformers.Seq2SeqTrainer):
    """Trains a model that writes its answer."""


def build_trainer(job: FinetuneJob) -> Any:
    """A Trainer that keeps the model with the best score on the validation documents."""
    config, model, task = job.config, job.tuned.model, job.task
    optimizer = torch.optim.AdamW(groups(model, config), lr=config.lr)
    job.observer.begin(job.steps)
    trainer = trainer_class(task)(
        model=model,
        args=arguments(job),
        train_dataset=DocumentDataset(job.rows["train"]),
        eval_dataset=DocumentDataset(job.rows["valid"]),
        data_collator=task.collator(model),
        compute_metrics=lambda results: task.score(results.predictions, results.label_ids),
        optimizers=(
            optimizer,
            torch.optim.lr_scheduler.LambdaLR(optimizer, slope(job.steps, config.warmup)),
        ),
        callbacks=[LogCallback(job)],
    )
    trainer.job = job
    trainer.add_callback(StopCallback(trainer))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.model_accepts_loss_kwargs = False  # else losses of documents are summed over the parts of a batch
    return trainer


def trainer_class(task: DocumentTask) -> Any:
    """The Trainer of a kind of task."""
    if isinstance(task, WrittenClassification):
        return WritingTrainer
    return AnsweringTrainer if isinstance(task, Answering) else DocumentTrainer


def arguments(job: FinetuneJob) -> Any:
    """The settings of a Trainer."""
    config, task, every = job.config, job.task, job.evaluate_every
    device = job.processes.device
    settings: dict[str, Any] = {
        "output_dir": str(job.store.folder),
        "per_device_train_batch_size": job.at_once,
        "per_device_eval_batch_size": job.at_once,
        "gradient_accumulation_steps": job.parts,
        "max_steps": job.steps,
        "max_grad_norm": config.clip,
        "eval_strategy": "steps",
        "save_strategy": "steps",
        "eval_steps": every,
        "save_steps": every,
        "logging_steps": min(10, every),
        "metric_for_best_model": task.scoring.metric,
        "greater_is_better": task.scoring.metric not in task.lower_is_better,
        "bf16": config.precision == "bf16-mixed",
        "use_cpu": device.type == "cpu",
        "seed": config.seed,
        "label_names": task.targets,
        "report_to": [],
        "disable_tqdm": True,
        "log_level": "error",
        "logging_nan_inf_filter": False,  # a loss that is no number ends the run
    }
    if not isinstance(task, WrittenClassification):
        return transformers.TrainingArguments(**settings)
    return transformers.Seq2SeqTrainingArguments(
        predict_with_generate=True, generation_max_length=task.longest_label + 1, **settings
    )


def position_loss(logits: Tensor, positions: Tensor) -> Tensor:
    """The mean cross-entropy of positions (B,) in logits (B, T); zero where all are out of reach."""
    beyond = logits.shape[1]
    losses = F.cross_entropy(logits, positions.clamp(max=beyond), ignore_index=beyond, reduction="sum")
    return losses / (positions < beyond).sum().clamp(min=1)


class DocumentDataset(torch.utils.data.Dataset):
    """Encoded documents."""

    def __init__(self, rows: Sequence[dict[str, Any]]):
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


def groups(model: Any, config: TuningConfig) -> list[dict[str, Any]]:
    """Weights with decay, norms and biases without, memory and LoRA without, at rates of their own."""
    decayed: list[Any] = []
    plain: list[Any] = []
    memory: list[Any] = []
    lora: list[Any] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if "memory" in name.split("."):
            memory.append(parameter)
        elif ".lora_" in name:
            lora.append(parameter)
        else:
            (decayed if parameter.dim() > 1 else plain).append(parameter)
    return [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": memory, "weight_decay": 0.0, "lr": config.lr * config.memory_lr},
        {"params": lora, "weight_decay": 0.0, "lr": config.lr * config.lora_lr},
    ]


def slope(steps: int, warmup: float) -> Any:
    """Up in a line for the warm-up, then down to zero."""
    peak = max(1, warmup_steps(warmup, steps))
    return lambda step: min((step + 1) / peak, max(0.0, (steps - step) / max(1, steps - peak)))


class LogCallback(TrainerCallback):
    """Writes metrics.jsonl and tells the observer."""

    def __init__(self, job: FinetuneJob):
        self.log, self.observer, self.metrics, self.job = job.log, job.observer, job.task.metrics, job

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **rest: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return
        require_learning("loss", math.isfinite(logs["loss"]), state.global_step, self.job.store)
        record = {
            "step": state.global_step,
            "epoch": logs["epoch"],
            "loss": logs["loss"],
            "rate": logs["learning_rate"],
        }
        self.tell(record, self.observer.logged)

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        measured = rest["metrics"]
        names = [name for name in ("loss", *self.metrics) if f"eval_{name}" in measured]
        scores = {name: measured[f"eval_{name}"] for name in names}
        record = {"step": state.global_step, "epoch": state.epoch, "split": "valid", **scores}
        self.tell(record, self.observer.evaluated)

    def tell(self, record: dict[str, Any], hear: Callable[[dict[str, Any]], None]) -> None:
        """A line of the log, once for all processes."""
        if is_first():
            self.log.write(record)
        hear(record)


class StopCallback(TrainerCallback):
    """Ends training when patience does; saves and ends it behind a step in which a signal asked for it."""

    def __init__(self, trainer: ResumableTrainer):
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if self.trainer.job.processes.largest(REQUEST.signal):
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Every evaluation is saved, and only then is it known whether it was the best."""
        if self.trainer.is_over():
            control.should_training_stop = True
