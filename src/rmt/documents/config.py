"""The settings of a fine-tuning run; the texts of the fields are the command's help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmt.config import check_fields, option, positive
from rmt.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """Everything that makes a run: data, backbone, memory, optimisation."""

    data: str = option("", "file or folder of documents, or hyperpartisan")
    path: str | None = option(None, "folder of a named data set")
    text: str = option("text", "column of the text")
    label: str = option("label", "column of the label")
    backbone: str = option("", "pretrained model: a folder or a name on the hub")
    tokenizer: str | None = option(None, "its tokenizer, where it is elsewhere")
    segments: int = option(4, "the most segments of a document")
    memory: int = option(10, "memory tokens; 0 = none")
    segment_length: int | None = option(None, "tokens of text in a segment; none = the most that fits")
    overlong: Literal["warn", "error"] = option(
        "warn", "drop what is beyond the last segment and say so, or refuse it"
    )
    layout: str | None = option(None, "paper, prefix (encoders) or causal (decoders); none = paper")
    alignment: Literal["left", "right", "even"] | None = option(
        None, "which segment is the short one; none = right"
    )
    scale: Literal["free", "embedding"] = option(
        "free", "memory enters as it left, or at the size of embeddings"
    )
    depth: int | Literal["full"] = option("full", "previous segments that the loss reaches through memory")
    checkpoint: bool = option(False, "compute segments again in the backward pass: less space, more time")
    epochs: float = option(10.0, "passes over the training documents")
    batch: int = option(16, "documents per update")
    at_once: int = option(8, "documents in the device's memory at a time")
    rate: float = option(5e-5, "peak learning rate")
    memory_rate: float = option(1.0, "learning rate of memory, as a multiple of the others'")
    warmup: float = option(0.1, "share of the updates until the peak; then down to 0 in a line")
    decay: float = option(0.01, "weight decay")
    clip: float = option(1.0, "largest norm of the gradient")
    evaluate_every: int | None = option(None, "updates between evaluations; none = an epoch")
    patience: int = option(5, "evaluations without a better F1 before stopping")
    precision: Literal["auto", "float32", "bfloat16"] = option("auto", "arithmetic; auto = bfloat16 on a GPU")
    seed: int = option(0, "random seed of the head, of memory, dropout and order")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "where to compute")

    def __post_init__(self) -> None:
        check_fields(self, "finetune")
        for name in ("segments", "epochs", "batch", "at_once", "rate", "memory_rate", "clip", "patience"):
            positive(name, getattr(self, name))
        for name in ("memory", "warmup", "decay"):
            positive(name, getattr(self, name), zero=True)
        if not self.backbone:
            raise ConfigError("backbone is missing: name a pretrained model with --backbone")
        if self.memory == 0 and self.segments > 1:
            raise ConfigError(
                f"segments={self.segments} with memory=0: nothing would come from one segment to the next; "
                "use --segments 1, or memory"
            )
