"""The settings of a fine-tuning run; the texts of the fields are the command's help."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from rmt.config import above, at_least, option
from rmt.documents.kinds import KINDS
from rmt.documents.scores import Average
from rmt.documents.tuning_config import CACHE, TuningConfig
from rmt.errors import ConfigError

OF_MEMORY = ("kind", "depth", "layout", "memory_scale", "memory_lr")  # without memory, they change nothing


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(TuningConfig):
    """Everything that makes a run: data, backbone, memory, optimisation."""

    data: str = option("", "file or folder of documents, or hyperpartisan")
    path: str | None = option(None, "folder of a named data set")
    task: Literal[
        "classification", "multi-label", "regression", "token-classification", "question-answering"
    ] = option("classification", "what is learned of a document: a class, classes, a number, tags, answers")
    text: str = option("text", "column of the text")
    label: str = option("label", "column of the label: a class, classes, a number, tags, or an answer")
    question: str = option("question", "column of the question, of question-answering")
    metric: str | None = option(
        None, "score on the validation documents that decides which model is best; none = the task's first"
    )
    average: Average | None = option(
        None, "F1 is the mean over classes, of all answers together, or by frequency; none = macro"
    )
    positive: str | None = option(None, "F1 is that of this class alone")
    folds: int = option(
        0, "cross-validation: so many runs, each tested on its share of all documents; 0 = none", at_least(0)
    )
    fold: int | None = option(None, "this share only, counted from 0; none = all", at_least(0))
    cache: int = option(0, CACHE, at_least(0))
    segments: int = option(4, "the most segments of a document", above(0))
    memory: int = option(10, "memory tokens; 0 = none", at_least(0))
    answer: Literal["last", "mean"] = option(
        "last", "the last segment answers, or the mean of all, each alone, with memory 0 (chunk and average)"
    )
    overlong: Literal["warn", "error"] = option(
        "warn", "drop what is beyond the last segment and say so, or refuse it"
    )
    layout: Literal["paper", "prefix", "causal"] | None = option(
        None, "paper, prefix (encoders) or causal (decoders); none = paper"
    )
    alignment: Literal["left", "right", "even"] | None = option(
        None, "which segment is the short one; none = right, of decoders left"
    )
    memory_scale: Literal["free", "embedding"] = option(
        "free", "memory enters as it left, or at the size of embeddings"
    )
    curriculum: Literal["none", "segments"] = option(
        "none", "segments: texts are cut to one segment at first, and whole before half of the steps"
    )
    epochs: float = option(10.0, "passes over the training documents", above(0))
    batch: int = option(16, "documents per update", above(0))
    at_once: int = option(8, "the most documents in the device's memory at a time", above(0))
    evaluate_every: int | None = option(None, "steps between evaluations; none = an epoch", above(0))
    patience: int = option(5, "evaluations without a better score before stopping", above(0))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sink(self.cache)
        self.check_scoring()
        self.check_segments()
        self.check_memory()
        if self.folds == 1 or (self.fold is not None and self.fold >= self.folds):
            raise ConfigError(
                f"fold={self.fold} of folds={self.folds}: folds are 2 or more, fold is one of them"
            )

    def check_scoring(self) -> None:
        """Raise for a score that the task does not have."""
        kind = KINDS[self.task]
        if self.metric is not None and self.metric not in kind.metrics:
            raise ConfigError(
                f"metric={self.metric!r} is not one of task={self.task!r}: {', '.join(kind.metrics)}"
            )
        if self.average is not None and self.positive is not None:
            raise ConfigError(
                f"average={self.average!r} has no effect with positive={self.positive!r}; leave one out"
            )
        for name in ("average", "positive"):
            if getattr(self, name) is not None and not kind.fewest_classes:
                raise ConfigError(
                    f"{name}={getattr(self, name)!r} has no effect with task={self.task!r}, without classes"
                )
        if self.question != "question" and not kind.asks:
            raise ConfigError(
                f"question={self.question!r} has no effect with task={self.task!r}; leave it out"
            )

    def check_segments(self) -> None:
        """Raise for segments that could not do what they should."""
        for name, off in (("answer", "last"), ("curriculum", "none")):
            value = getattr(self, name)
            if value != off and not KINDS[self.task].answers_once:
                raise ConfigError(
                    f"{name}={value!r} needs a task with an answer per document, which {self.task!r} is not"
                )
            if value != off and self.segments == 1:
                raise ConfigError(f"{name}={value!r} has no effect with segments=1; use more --segments")
        if self.cache and self.segments == 1:
            raise ConfigError(f"cache={self.cache} has no effect with segments=1; leave it out")
        for name in ("memory", "cache"):
            if self.answer == "mean" and getattr(self, name):
                raise ConfigError(
                    f"answer='mean' with {name}={getattr(self, name)}: each segment is answered alone; use "
                    f"--{name} 0"
                )
        if self.memory + self.cache == 0 and self.segments > 1 and self.answer == "last":
            raise ConfigError(
                f"segments={self.segments} with memory=0: nothing would come from one segment to the next; "
                "use --segments 1, memory, or --answer mean"
            )

    def check_memory(self) -> None:
        """Raise for a setting of memory where there is none."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in OF_MEMORY and value != field.default and self.memory == 0:
                raise ConfigError(f"{field.name}={value!r} has no effect with memory=0; leave it out")
