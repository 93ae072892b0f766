"""The arguments of `generate`: as in plain transformers, or refused in one line."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers import GenerationMixin

from rmt.core.inputs import require_ids
from rmt.errors import ConfigError, DataError
from rmt.hf.inputs import named_arguments

TAKES_BACK = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit")


def generation_arguments(
    inputs: Tensor | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """All arguments of `generate` by their names."""
    arguments = named_arguments(GenerationMixin.generate, (inputs, *args), kwargs)
    if inputs is None:
        del arguments["inputs"]
    else:
        require_ids(inputs, "inputs")
    return arguments


def checked_generation(arguments: dict[str, Any], config: Any) -> None:
    """Refuse what memory makes impossible, whether it is an argument or in the generation configuration."""
    for name in TAKES_BACK:
        if asked_for(name, arguments, config) is not None:
            raise ConfigError(
                f"{name} guesses tokens and takes them back, and memory cannot take back what it has "
                "written; leave it out"
            )
    if asked_for("is_assistant", arguments, config):
        raise ConfigError(
            "memory cannot take back what it has written, and as an assistant it would have to take tokens "
            "back; name a model without memory"
        )
    implementation = asked_for("cache_implementation", arguments, config)
    if implementation is not None:
        raise ConfigError(
            f"cache_implementation={implementation!r} knows no segments; leave it out, the cache of a model "
            "with memory is as small as a segment"
        )
    if arguments.get("position_ids") is not None:
        raise ConfigError("position_ids are counted anew in each segment; leave them out")
    if arguments.get("state") is not None and arguments.get("past_key_values") is not None:
        raise ConfigError("state= has no effect beside past_key_values, which has its own; leave it out")


def require_last_tokens(mask: Any) -> None:
    """Refuse prompts (B, T) that end with padding: the next token follows the last place."""
    if not isinstance(mask, Tensor) or mask.dim() != 2 or not mask.shape[1]:
        return
    rows = (mask[:, -1] == 0).nonzero().flatten().tolist()
    if not rows:
        return
    row = rows[0]
    if not mask[row].any():
        raise DataError(
            f"row {row} has no tokens: its attention_mask is 0 everywhere, and nothing can follow; leave the "
            "row out"
        )
    raise DataError(
        f"row {row} of attention_mask ends with padding, which nothing can follow; pad prompts on the left "
        "(tokenizer.padding_side='left')"
    )


def checked_without_cache(arguments: dict[str, Any], config: Any, state: Any) -> None:
    """Refuse what a decoder without a cache, which is given its whole text anew each time, would lose."""
    if arguments.get("inputs_embeds") is not None:
        raise ConfigError("inputs_embeds needs a cache; leave use_cache=False out")
    if state is not None and (asked_for("num_beams", arguments, config) or 1) > 1:
        raise ConfigError("state= goes into beams with a cache only; leave use_cache=False out")


def checked_without_prompt(arguments: dict[str, Any], config: Any) -> None:
    """Refuse what an encoder-decoder has no prompt for."""
    if (asked_for("guidance_scale", arguments, config) or 1) != 1:
        raise ConfigError(
            "guidance_scale weighs a decoder's prompt, and an encoder-decoder has none; leave it out"
        )


def asked_for(name: str, arguments: dict[str, Any], config: Any) -> Any:
    """The value of an argument, which the generation configuration may have, too."""
    return arguments.get(name, getattr(config, name, None))
