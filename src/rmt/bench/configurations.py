"""What `rmt bench` measures, by name: the paper's configurations by default, and others beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Configuration(NamedTuple):
    """Settings as in a config file; text is made with as many symbols as the real corpus has."""

    about: str
    settings: dict[str, Any]
    symbols: int = 0  # of made text; 0 = the task needs none
    beside: str = ""  # the configuration it is compared with, where both are measured


def copying(segments: int, batch: int, **settings: Any) -> dict[str, Any]:
    task = {"name": "copy", "length": 24, "segments": segments}
    return {"task": task, "size": "paper", "train": {"batch": batch}, **settings}


def language_model(size: str, depth: int, positions: str, **model: Any) -> dict[str, Any]:
    """The schedule is the recipe's."""
    bptt, positioned = {"depth": depth}, {"positions": positions, **model}
    return {"task": {"name": "text"}, "size": size, "bptt": bptt, "model": positioned}


def enwik8_beside(about: str, positions: str, settings: Mapping[str, Any], **model: Any) -> Configuration:
    """A variant of enwik8's model, beside the RMT with the same positions."""
    plain = language_model("enwik8-base", 2, positions, **model)
    return Configuration(about, {**plain, **settings}, ENWIK8, beside=f"enwik8-{positions}")


ENWIK8, WORDS = 204, 267_735  # symbols: bytes of enwik8 as the original prepares it, words of WikiText-103
SMALL = {
    "copy-small": Configuration(
        "copy 8 symbols, 3 segments of 8, 2 layers × 64, batch 64", {"task": {"name": "copy"}}
    ),
    "text-small": Configuration(
        "text in 3 segments of 64, 2 layers × 64, batch 16",
        {"task": {"name": "text"}, "bptt": {"depth": 2}},
        ENWIK8,
    ),
}
PAPER = {
    "copy-24-9x8": Configuration("copy 24 symbols, 9 segments of 8, 4 layers × 128", copying(9, 128)),
    "copy-24-6x12": Configuration("copy 24 symbols, 6 segments of 12, 4 layers × 128", copying(6, 32)),
    "quadratic-6": Configuration(
        "quadratic equations, 6 segments, 6 layers × 128",
        {"task": {"name": "quadratic", "segments": 6}, "size": "paper", "train": {"batch": 128}},
    ),
    "enwik8-rotary": Configuration(
        "enwik8's model, 3 segments of 128, 12 layers × 512, every loss counted",
        language_model("enwik8-base", 2, "rotary"),
        ENWIK8,
    ),
    "enwik8-relative": Configuration(
        "the same with the paper's positions", language_model("enwik8-base", 2, "relative"), ENWIK8
    ),
    "wt103-rotary": Configuration(
        "WikiText-103's model, 4 segments of 150, 16 layers × 410, 267,735 words; heads of 42, rotary "
        "positions need an even width",
        language_model("wt103-base", 3, "rotary", head_width=42),
        WORDS,
    ),
    "wt103-relative": Configuration(
        "the same with the paper's positions and its heads of 41",
        language_model("wt103-base", 3, "relative"),
        WORDS,
    ),
}
DROPOUT = 0.1  # of the paper
VARIANTS = {
    "copy-24-9x8-dropout": Configuration(
        "copy-24-9x8 with dropout 0.1", copying(9, 128, model={"dropout": DROPOUT}), beside="copy-24-9x8"
    ),
    "copy-24-9x8-paper": Configuration(
        "copy-24-9x8 by the recipe paper: post-norm, dropout, Adam, a fixed training set",
        copying(9, 128, recipe="paper"),
        beside="copy-24-9x8",
    ),
    "enwik8-rotary-dropout": enwik8_beside("enwik8-rotary with dropout 0.1", "rotary", {}, dropout=DROPOUT),
    "enwik8-relative-dropout": enwik8_beside(
        "enwik8-relative with dropout 0.1", "relative", {}, dropout=DROPOUT
    ),
    "enwik8-relative-xl": enwik8_beside(
        "Transformer-XL in place of the RMT of enwik8-relative, cache 128",
        "relative",
        {"preset": "transformer_xl"},
        cache={"size": 128},
    ),
    "enwik8-relative-xl-rmt": enwik8_beside(
        "Transformer-XL + RMT in its place, cache 128 and memory 10",
        "relative",
        {"preset": "transformer_xl_rmt"},
        cache={"size": 128},
    ),
    "enwik8-relative-paper": enwik8_beside(
        "enwik8-relative by the recipe paper: post-norm, dropout, Adam, the last loss of three segments",
        "relative",
        {"recipe": "paper", "bptt": {"depth": 2}},
    ),
}
CONFIGURATIONS = SMALL | PAPER | VARIANTS
# measured by programs of their own, without settings: name, and what is timed
KINDS = {
    "stream": "sessions of one row and of 32 at base size, in segments of 512 (on a CPU smaller)",
    "wrapped": "updates of pretrained models with memory beside the plain ones: MiniLM, BERT-base, GPT-2",
    "start": "rmt train, from the start of the command to its first update and to its end, cold and warm",
}
