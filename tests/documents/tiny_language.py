"""A tiny decoder with dropout, a text of a few words, and a run of a second that brings them together."""

import random
from pathlib import Path
from typing import Any

from rmt.documents.language_config import LanguageConfig
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

SETTINGS: dict[str, Any] = {
    "segments": 2,
    "segment_length": 6,
    "memory": 2,
    "tokens": 10 * 24,
    "batch": 2,
    "lora": 2,
    "evaluate_every": 4,
    "test_segments": 3,
    "test_tokens": 40,
    "device": "cpu",
}
WORDS = ("the", "film", "was", "good", "bad")


def write_decoder(folder: Path, family: str, **settings: Any) -> Path:
    """A tiny pretrained decoder with random weights and its tokenizer, in a folder of the family's name."""
    model = plain(family, "ForCausalLM", vocab_size=len(tokenizer()), **settings)
    model.float().save_pretrained(folder / family)
    tokenizer().save_pretrained(folder / family)
    return folder / family


def write_novel(folder: Path) -> Path:
    """Two hundred lines of a few words, drawn at random."""
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=8)) for _ in range(200)]
    (folder / "novel.txt").write_text("\n".join(lines) + "\n")
    return folder / "novel.txt"


def config_of(home: Path, family: str, **settings: Any) -> LanguageConfig:
    """The configuration of a run on what the two have left in a folder."""
    return LanguageConfig(
        data=str(home / "novel.txt"), backbone=str(home / family), **{**SETTINGS, **settings}
    )
