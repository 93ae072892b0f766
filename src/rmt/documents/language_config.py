"""The settings of fine-tuning a decoder on a text; the texts of the fields are the command's help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rmt.config import above, at_least, option
from rmt.documents.tuning_config import CACHE, TuningConfig
from rmt.train.config import RATE


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(TuningConfig):
    """Everything that makes a run: text, backbone, memory, optimisation, comparison."""

    data: str = option("", "text file, or folder with train.txt, valid.txt and test.txt")
    task: Literal["lm"] = option("lm", "the language model of a text")
    segments: int = option(5, "segments of a training sequence, the first from an empty memory", above(1))
    memory: int = option(10, "memory tokens", above(0))
    cache: int | None = option(
        None,
        f"{CACHE}; none = as many as a segment has, where both fit and positions are not learned",
        at_least(0),
    )
    curriculum: Literal["none", "segments"] = option(
        "none", "whole sequences from the beginning, or pieces of one segment and more until half of the run"
    )
    tokens: int = option(300_000, "tokens to train on, whole updates of them", above(0))
    batch: int = option(2, "sequences per update", above(0))
    lora: int = option(
        16, "rank of LoRA matrices, which are trained instead of the backbone; 0 = train all", at_least(0)
    )
    lr: float = option(1e-3, "learning rate of AdamW at its peak", RATE)
    evaluate_every: int | None = option(None, "steps between evaluations; none = an eighth of them", above(0))
    test_segments: int = option(20, "segments of a tested sequence, memory carried through them", above(1))
    test_tokens: int | None = option(None, "the most tokens of a split to test; none = all", above(0))
    compare: Literal["none", "plain", "all"] = option(
        "none",
        "also train the plain decoder on equal tokens, in windows of segment and cache; all = with the cache "
        "alone and with full attention, too",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_sink(self.cache)
