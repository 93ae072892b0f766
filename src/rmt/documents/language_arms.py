"""What is compared when a decoder learns a text: with memory, in plain windows, with full attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from rmt.documents.language_config import LanguageConfig
from rmt.documents.pretrained import PretrainedSource, weights_only
from rmt.documents.tuned import savable_tokenizer
from rmt.errors import ConfigError
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES, limit_of


class Arm(NamedTuple):
    """A way to encode a text, with its own training."""

    name: str
    memory: int
    length: int  # tokens that see each other

    def folder(self, run: Path) -> Path:
        """Where its log and its checkpoints are: the run's own folder for the model that it is about."""
        return run if self.memory else run / self.name


class PretrainedDecoder(NamedTuple):
    """A pretrained decoder and its tokenizer."""

    model: Any
    tokenizer: Any

    def wrapped(self, arm: Arm, config: LanguageConfig) -> Any:
        """The decoder as an arm has it, which shares its weights; at first, memory changes nothing."""
        memory: dict[str, Any] = {"kind": config.kind, "bptt": config.depth} if arm.memory else {}
        return add_memory(
            self.model,
            memory=arm.memory,
            segment_length=arm.length,
            special_tokens=(0, 0),
            checkpoint=config.checkpoint,
            **memory,
        )

    def segment_length(self, config: LanguageConfig) -> int:
        """Tokens of a segment: those asked for, or the most that fit beside memory."""
        if config.segment_length is not None:
            return config.segment_length
        settings = add_memory(
            self.model, memory=config.memory, kind=config.kind, special_tokens=(0, 0)
        ).settings
        return int(settings.segment_length)

    def arms(self, config: LanguageConfig) -> list[Arm]:
        """The model with memory, and those that it is compared with."""
        length = self.segment_length(config)
        memory, plain = Arm("memory", config.memory, length), Arm("plain", 0, length)
        whole = Arm("full_attention", 0, length * config.segments)
        arms = {"none": [memory], "plain": [memory, plain], "all": [memory, plain, whole]}[config.compare]
        limit = limit_of(self.model.config, FAMILIES[self.model.config.model_type])
        if whole in arms and limit is not None and whole.length > limit:
            raise ConfigError(
                f"compare=all: full attention over {config.segments} × {length} tokens needs more than the "
                f"decoder's {limit} positions; use --compare plain, or fewer or shorter segments"
            )
        return arms


def load_decoder(config: LanguageConfig) -> PretrainedDecoder:
    """The decoder that a configuration names."""
    import transformers

    source = PretrainedSource("backbone", config.backbone)
    kind = source.config().model_type
    if kind not in FAMILIES or FAMILIES[kind].kind != "decoder":
        decoders = ", ".join(name for name, family in FAMILIES.items() if family.kind == "decoder")
        raise ConfigError(f"backbone={config.backbone!r} is of type {kind!r}; --task lm takes: {decoders}")
    model = source.load(transformers.AutoModelForCausalLM, dtype=torch.float32, **weights_only())
    return PretrainedDecoder(model, savable_tokenizer(config.tokenizer or config.backbone, model))
