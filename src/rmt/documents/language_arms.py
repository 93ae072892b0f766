"""What is compared when a decoder learns a text: memory, the cache alone, plain windows, full attention."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from rmt.core.config import CacheConfig
from rmt.documents.language_config import LanguageConfig
from rmt.documents.pretrained import PretrainedSource, model_options
from rmt.documents.tuned import savable_tokenizer
from rmt.errors import ConfigError
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES, Family, limit_of
from rmt.hf.layer_cache import learned_positions
from rmt.hf.settings import usual_sink

OTHERS = ("cache", "plain", "full_attention")  # what memory is compared with


class Arm(NamedTuple):
    """A way to encode a text, with its own training."""

    name: str
    memory: int
    length: int  # tokens that see each other
    cache: CacheConfig = CacheConfig()  # tokens before them that they see

    @property
    def lengths(self) -> str:
        """Segment and cache in words."""
        cache = f"a cache of {self.cache}" if self.cache.size else "no cache"
        return f"segments of {self.length} tokens, {cache}"

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
            cache=arm.cache.size,
            sink=arm.cache.sink,
            special_tokens=(0, 0),
            checkpoint=config.checkpoint,
            **memory,
        )

    def with_memory(self, config: LanguageConfig) -> Arm:
        """The arm with memory, its segments as long as asked for, or as fits."""
        cache = self.usual_cache(config) if config.cache is None else config.cache
        length = self.room(config, cache) if config.segment_length is None else config.segment_length
        kept = CacheConfig(size=cache, sink=usual_sink(cache, config.sink))
        return Arm("memory", config.memory, length, kept)

    def usual_cache(self, config: LanguageConfig) -> int:
        """As many tokens as a segment has, where both fit; none where positions are learned."""
        if learned_positions(self.model, self.family):
            return 0
        room = self.room(config, 0) - usual_sink(1, config.sink)
        length = room - room // 2 if config.segment_length is None else config.segment_length
        return max(0, min(length, room - length))

    def room(self, config: LanguageConfig, cache: int) -> int:
        """The most tokens of a segment that fit beside memory and a cache."""
        sink = config.sink if cache else None
        settings = add_memory(
            self.model, memory=config.memory, kind=config.kind, cache=cache, sink=sink, special_tokens=(0, 0)
        ).settings
        return int(settings.segment_length)

    @property
    def family(self) -> Family:
        return FAMILIES[self.model.config.model_type]

    def arms(self, config: LanguageConfig) -> list[Arm]:
        """The model with memory, and those that it is compared with."""
        memory = self.with_memory(config)
        alone = [memory._replace(name="cache", memory=0)] if memory.cache.size else []
        plain = Arm("plain", 0, memory.length + memory.cache.size)
        whole = Arm("full_attention", 0, memory.length * config.segments)
        others = {"none": [], "plain": [plain], "all": [*alone, plain, whole]}[config.compare]
        limit = limit_of(self.model.config, self.family)
        if whole in others and limit is not None and whole.length > limit:
            raise ConfigError(
                f"compare=all: full attention over {config.segments} × {memory.length} tokens needs more "
                f"than the decoder's {limit} positions; use --compare plain, or fewer or shorter segments"
            )
        return [memory, *others]


def load_decoder(config: LanguageConfig) -> PretrainedDecoder:
    """The decoder that a configuration names."""
    import transformers

    source = PretrainedSource("backbone", config.backbone)
    kind = source.config().model_type
    if kind not in FAMILIES or FAMILIES[kind].kind != "decoder":
        decoders = ", ".join(name for name, family in FAMILIES.items() if family.kind == "decoder")
        raise ConfigError(f"backbone={config.backbone!r} is of type {kind!r}; --task lm takes: {decoders}")
    model = source.load(transformers.AutoModelForCausalLM, dtype=torch.float32, **model_options())
    return PretrainedDecoder(model, savable_tokenizer(config.tokenizer or config.backbone, model))
