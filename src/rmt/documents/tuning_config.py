"""The settings that all fine-tuning has in common; the texts of the fields are the command's help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmt.config import Interval, above, at_least, check_fields, option
from rmt.core.config import MEMORY_KINDS
from rmt.errors import ConfigError
from rmt.precision import TO_TRAIN, AskedPrecision, DeviceName
from rmt.train.config import LARGEST_SEED, RATE
from rmt.train.warmup import check_warmup

CACHE = "tokens before a segment that every layer of a decoder sees, without gradient; 0 = none"


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """A pretrained backbone, its memory, and how both are optimised."""

    backbone: str = option("", "pretrained model: a folder or a name on the hub")
    tokenizer: str | None = option(None, "its tokenizer, where it is elsewhere")
    kind: str | None = option(
        None, f"kind of memory: {', '.join(MEMORY_KINDS)}; none = the backbone's default"
    )
    sink: int | None = option(
        None, "tokens at the start of a text that the cache keeps besides; none = four", at_least(0)
    )
    segment_length: int | None = option(
        None, "tokens of text in a segment; none = the most that fits", above(0)
    )
    depth: int | Literal["full"] = option(
        "full", "previous segments that a loss's gradient reaches, or full", at_least(0)
    )
    checkpoint: bool = option(False, "recompute segments in the backward pass to save memory")
    lr: float = option(5e-5, "learning rate of AdamW at its peak", RATE)
    memory_lr: float = option(1.0, "learning rate of memory, as a multiple of lr", RATE)
    lora: int = option(
        0, "rank of LoRA matrices, which are trained instead of the backbone; 0 = none", at_least(0)
    )
    lora_lr: float = option(1.0, "learning rate of LoRA matrices, as a multiple of lr", RATE)
    warmup: float = option(
        0.1, "linear warm-up, below 1 a share of the steps, else steps; then down to 0 in a line", at_least(0)
    )
    weight_decay: float = option(0.01, "decoupled weight decay", at_least(0))
    clip: float = option(1.0, "largest norm of the gradient; 0 = no clipping", at_least(0))
    precision: AskedPrecision = option("auto", TO_TRAIN)
    seed: int = option(0, "random seed of the head, of memory, dropout and order", Interval(0, LARGEST_SEED))
    device: DeviceName = option("auto", "where to compute")

    def __post_init__(self) -> None:
        check_fields(self)
        check_warmup("warmup", self.warmup)
        if not self.backbone:
            raise ConfigError("backbone is missing: name a pretrained model with --backbone")
        if self.lora == 0 and self.lora_lr != 1:
            raise ConfigError(f"lora_lr={self.lora_lr} has no effect without --lora; leave it out")

    def check_sink(self, cache: int | None) -> None:
        """Raise for a sink of no cache."""
        if cache == 0 and self.sink is not None:
            raise ConfigError(f"sink={self.sink} has no effect with cache=0; leave it out")
