"""Wrapped decoders: memory on both sides of the tokens, caches that go on, generation across segments."""

# B batch · L tokens · D width

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.hf.generation import (
    checked_generation,
    checked_without_cache,
    generation_arguments,
    require_last_tokens,
)
from rmt.hf.head import Head, SegmentStates
from rmt.hf.inputs import refuse_token_types
from rmt.hf.model import PretrainedClass, WithMemory
from rmt.hf.segmentwise import SegmentwiseCall
from rmt.hf.steppable import reason_not_steppable, require_steppable
from rmt.hf.stepping import SegmentCache
from rmt.hf.whole import WholeSegments
from rmt.hf.wrapped_segment import WrappedSegment


class DecoderMemory(WithMemory):
    """Decoders: memory on both sides of the tokens, caches that go on."""

    def output_and_state(
        self, forward: Callable[..., Any], arguments: dict[str, Any], state: State | None
    ) -> tuple[Any, State | None]:
        cache = arguments.get("past_key_values")
        if cache is None:
            return super().output_and_state(forward, arguments, state)
        if state is not None:
            raise ConfigError("state= has no effect beside past_key_values, which has its own; leave it out")
        if self.segment_backbone() is self:
            return cache.call_backbone(**arguments), None
        return self.run_head(cache.call_backbone, forward, arguments), None

    def tokens_seen(self, arguments: dict[str, Any]) -> int:
        """How many tokens the cache among the arguments has seen; another kind of cache is refused."""
        cache = arguments.get("past_key_values")
        if cache is None:
            return 0
        if not isinstance(cache, SegmentCache):
            raise ConfigError(
                f"past_key_values={type(cache).__name__} knows no segments; generate() makes its own, and "
                "rmt.hf.SegmentCache(model, state) is one"
            )
        return cache.get_seq_length()

    def state_after(self, arguments: dict[str, Any], state: State | None) -> State | None:
        """The state after a call; that of a cache closes a copy of it, so that it can go on."""
        cache = arguments.get("past_key_values")
        return state if cache is None else cache.fork().close()

    def backbone_call(self, arguments: dict[str, Any], state: State | None) -> SegmentwiseCall:
        """A call of the backbone that leaves a cache behind, as plain classes do unless told otherwise."""
        return SegmentwiseCall(self, state, leaves_cache=self.leaves_cache(arguments))

    def leaves_cache(self, arguments: dict[str, Any]) -> bool:
        """Whether a call leaves a cache with which its text goes on."""
        use_cache: bool | None = arguments.get("use_cache")
        if use_cache is None:
            wanted = getattr(self.config, "use_cache", True) and not torch.is_grad_enabled()
            has_types = arguments.get("token_type_ids") is not None
            return bool(wanted) and not has_types and reason_not_steppable(self) is None
        if use_cache:
            require_steppable(self)
            refuse_token_types(arguments)
            if torch.is_grad_enabled() and self.settings.bptt != "full":
                raise ConfigError(
                    f"use_cache=True knows nothing of bptt={self.settings.bptt}; call it under "
                    "torch.no_grad(), or leave use_cache out"
                )
        return use_cache

    def open(self, state: State, room: int = 0) -> WrappedSegment:
        """A segment to be encoded piece by piece: `step(tokens)` …, then `close()` for the next state.

        `room` for tokens is what native models use: a cache of transformers makes its own.
        """
        return WrappedSegment(self, state)

    def encode(self, tokens: Tensor, state: State, lengths: Tensor | None = None) -> SegmentStates:
        """Encode one segment (B, L) and predict nothing; rows have the first `lengths` (B,) of its tokens."""
        segment = self.open(state)
        return SegmentStates(segment.encode(tokens, lengths), segment.close())

    def exportable(self) -> WholeSegments:
        """One whole segment as a function of tokens and state, as `rmt export` writes it."""
        if self.get_output_embeddings() is None:
            raise ConfigError(
                f"{type(self).__name__} gives no logits of a next token; export a language model"
            )
        return WholeSegments(self)

    @property
    def embedding(self) -> Head:
        """What turns hidden states into logits and losses."""
        return Head(self)


class DecoderGeneration(PretrainedClass):
    """What heads of decoders that generate have besides: generation across segments."""

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """As the class's own; memory is carried over each border of a segment, in constant space."""
        arguments = generation_arguments(inputs, args, kwargs)
        config = arguments.get("generation_config") or self.generation_config
        checked_generation(arguments, config)
        state, cache = arguments.pop("state", None), arguments.pop("past_key_values", None)
        if cache is None and arguments.get("use_cache", config.use_cache) is not False:
            cache, state = SegmentCache(self, state), None
        elif cache is None:
            checked_without_cache(arguments, config, state)
        if cache is not None:
            arguments["past_key_values"] = cache
        if state is not None:
            arguments["state"] = state
        return super().generate(**arguments)

    def init_continuous_batching(self, *args: Any, **kwargs: Any) -> Any:
        raise ConfigError(
            "generate_batch keeps a cache of pages for all its texts, which knows no segments; use generate()"
        )

    def prepare_inputs_for_generation(
        self, *args: Any, inputs_embeds: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        if inputs_embeds is not None:  # a prompt of embeddings is looked for by this name
            kwargs["inputs_embeds"] = inputs_embeds
        prepared = super().prepare_inputs_for_generation(*args, **kwargs)
        prepared.pop("position_ids", None)  # each segment counts its own
        if getattr(self.config, "output_router_logits", False):  # for a loss, which what is generated has not
            prepared.setdefault("output_router_logits", False)
        return prepared

    def _expand_inputs_for_generation(self, expand_size: int = 1, **inputs: Any) -> Any:
        """Rows for each beam and each returned sequence, of the state that they start from, too.

        Here the mask of the prompts is known, also where it was made from padding tokens.
        """
        require_last_tokens(inputs.get("attention_mask"))
        rows = len(inputs["input_ids"])
        ids, expanded = super()._expand_inputs_for_generation(expand_size=expand_size, **inputs)
        cache, state = expanded.get("past_key_values"), expanded.get("state")
        if isinstance(cache, SegmentCache) and not cache.seen:
            cache.begin(rows)
            cache.batch_repeat_interleave(expand_size)
        if state is not None:
            expanded["state"] = state.map(lambda tensor: tensor.repeat_interleave(expand_size, dim=0))
        return ids, expanded
