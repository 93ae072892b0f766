"""transformers' Trainer, set up for documents: one schedule, two learning rates, early stopping, a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import TrainerCallback

from rmt.documents.job import FinetuneJob
from rmt.documents.resuming import ResumableTrainer
from rmt.stopping import REQUEST
from rmt.train.warmup import warmup_steps

if TYPE_CHECKING:
    from rmt.documents.classifier import Classifier
    from rmt.documents.config import FinetuneConfig


class DocumentTrainer(ResumableTrainer, transformers.Trainer):
    """Trains a model with a head."""


class WritingTrainer(ResumableTrainer, transformers.Seq2SeqTrainer):
    """Trains a model that writes its answer."""


def build_trainer(job: FinetuneJob) -> Any:
    """A Trainer that keeps the model with the best F1 on the validation documents."""
    config, classifier = job.config, job.classifier
    optimizer = torch.optim.AdamW(groups(classifier.model, config), lr=config.lr)
    job.observer.begin(job.steps)
    trainer = (WritingTrainer if classifier.writes else DocumentTrainer)(
        model=classifier.model,
        args=arguments(job),
        train_dataset=DocumentDataset(job.rows["train"]),
        eval_dataset=DocumentDataset(job.rows["valid"]),
        data_collator=collator(classifier),
        compute_metrics=lambda results: classifier.score(results.predictions, results.label_ids),
        optimizers=(
            optimizer,
            torch.optim.lr_scheduler.LambdaLR(optimizer, slope(job.steps, config.warmup)),
        ),
        callbacks=[Telling(job)],
    )
    trainer.job = job
    trainer.add_callback(Stopping(trainer))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.model_accepts_loss_kwargs = False  # else losses of documents are summed over the parts of a batch
    return trainer


def arguments(job: FinetuneJob) -> Any:
    """The settings of a Trainer."""
    config, classifier, every = job.config, job.classifier, job.evaluate_every
    written: dict[str, Any] = {
        "predict_with_generate": True,
        "generation_max_length": classifier.longest_label + 1,
    }
    kind = transformers.Seq2SeqTrainingArguments if classifier.writes else transformers.TrainingArguments
    return kind(
        output_dir=str(job.store.folder),
        per_device_train_batch_size=job.at_once,
        per_device_eval_batch_size=job.at_once,
        gradient_accumulation_steps=job.parts,
        max_steps=job.steps,
        max_grad_norm=config.clip,
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=every,
        save_steps=every,
        logging_steps=min(10, every),
        metric_for_best_model="f1",
        greater_is_better=True,
        bf16=config.precision == "bf16-mixed",
        use_cpu=job.device == "cpu",
        seed=config.seed,
        report_to=[],
        disable_tqdm=True,
        log_level="error",
        **(written if classifier.writes else {}),
    )


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


def collator(classifier: Classifier) -> Any:
    if classifier.writes:
        return transformers.DataCollatorForSeq2Seq(classifier.tokenizer, classifier.model)
    return transformers.DataCollatorWithPadding(classifier.tokenizer)


def groups(model: Any, config: FinetuneConfig) -> list[dict[str, Any]]:
    """Weights with decay, norms and biases without, memory with its own rate and without decay."""
    decayed: list[Any] = []
    plain: list[Any] = []
    memory: list[Any] = []
    for name, parameter in model.named_parameters():
        if name.startswith("memory."):
            memory.append(parameter)
        else:
            (decayed if parameter.dim() > 1 else plain).append(parameter)
    return [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": plain, "weight_decay": 0.0},
        {"params": memory, "weight_decay": 0.0, "lr": config.lr * config.memory_lr},
    ]


def slope(steps: int, warmup: float) -> Any:
    """Up in a line for the warm-up, then down to zero."""
    peak = max(1, warmup_steps(warmup, steps))
    return lambda step: min((step + 1) / peak, max(0.0, (steps - step) / max(1, steps - peak)))


class Telling(TrainerCallback):
    """Writes metrics.jsonl and tells the observer."""

    def __init__(self, job: FinetuneJob):
        self.log, self.observer = job.log, job.observer

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **rest: Any
    ) -> None:
        if not logs or "loss" not in logs:
            return
        record = {
            "step": state.global_step,
            "epoch": logs["epoch"],
            "loss": logs["loss"],
            "rate": logs["learning_rate"],
        }
        self.log.write(record)
        self.observer.logged(record)

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        metrics = rest["metrics"]
        if "eval_f1" not in metrics:
            return
        names = ("loss", "accuracy", "f1")
        scores = {name: metrics[f"eval_{name}"] for name in names if f"eval_{name}" in metrics}
        record = {"step": state.global_step, "split": "valid", **scores}
        self.log.write(record)
        self.observer.evaluated(record)


class Stopping(TrainerCallback):
    """Ends training when patience does; saves and ends it behind a step in which a signal asked for it."""

    def __init__(self, trainer: ResumableTrainer):
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if REQUEST.signal:
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        """Every evaluation is saved, and only then is it known whether it was the best."""
        if self.trainer.is_over():
            control.should_training_stop = True
