"""The settings of a fine-tuning run; the texts of the fields are the command's help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmt.config import Interval, above, at_least, check_fields, option
from rmt.errors import ConfigError
from rmt.precision import TO_TRAIN, AskedPrecision
from rmt.train.config import LARGEST_SEED, RATE
from rmt.train.warmup import check_warmup


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Everything that makes a run: data, backbone, memory, optimisation."""

    data: str = option("", "file or folder of documents, or hyperpartisan")
    path: str | None = option(None, "folder of a named data set")
    text: str = option("text", "column of the text")
    label: str = option("label", "column of the label")
    backbone: str = option("", "pretrained model: a folder or a name on the hub")
    tokenizer: str | None = option(None, "its tokenizer, where it is elsewhere")
    segments: int = option(4, "the most segments of a document", above(0))
    memory: int = option(10, "memory tokens; 0 = none", at_least(0))
    segment_length: int | None = option(
        None, "tokens of text in a segment; none = the most that fits", above(0)
    )
    overlong: Literal["warn", "error"] = option(
        "warn", "drop what is beyond the last segment and say so, or refuse it"
    )
    layout: Literal["paper", "prefix", "causal"] | None = option(
        None, "paper, prefix (encoders) or causal (decoders); none = paper"
    )
    alignment: Literal["left", "right", "even"] | None = option(
        None, "which segment is the short one; none = right"
    )
    memory_scale: Literal["free", "embedding"] = option(
        "free", "memory enters as it left, or at the size of embeddings"
    )
    depth: int | Literal["full"] = option(
        "full", "previous segments that a loss's gradient reaches, or full", at_least(0)
    )
    checkpoint: bool = option(False, "recompute segments in the backward pass to save memory")
    epochs: float = option(10.0, "passes over the training documents", above(0))
    batch: int = option(16, "documents per update", above(0))
    at_once: int = option(8, "documents in the device's memory at a time", above(0))
    lr: float = option(5e-5, "learning rate of AdamW at its peak", RATE)
    memory_lr: float = option(1.0, "learning rate of memory, as a multiple of lr", RATE)
    warmup: float = option(
        0.1, "linear warm-up, below 1 a share of the steps, else steps; then down to 0 in a line", at_least(0)
    )
    weight_decay: float = option(0.01, "decoupled weight decay", at_least(0))
    clip: float = option(1.0, "largest norm of the gradient; 0 = no clipping", at_least(0))
    evaluate_every: int | None = option(None, "steps between evaluations; none = an epoch", above(0))
    patience: int = option(5, "evaluations without a better F1 before stopping", above(0))
    precision: AskedPrecision = option("auto", TO_TRAIN)
    seed: int = option(0, "random seed of the head, of memory, dropout and order", Interval(0, LARGEST_SEED))
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")

    def __post_init__(self) -> None:
        check_fields(self)
        check_warmup("warmup", self.warmup)
        if not self.backbone:
            raise ConfigError("backbone is missing: name a pretrained model with --backbone")
        if self.memory == 0 and self.segments > 1:
            raise ConfigError(
                f"segments={self.segments} with memory=0: nothing would come from one segment to the next; "
                "use --segments 1, or memory"
            )
