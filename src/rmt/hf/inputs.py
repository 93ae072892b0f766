"""What a wrapped model is called with, checked before anything is computed: one line says what is wrong."""

# B batch · T places of the given rows · P places that a cache has seen · D width

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

from rmt.core.inputs import require_ids
from rmt.core.state import State
from rmt.errors import ConfigError, DataError

TEXTS = ("input_ids", "inputs_embeds")
BESIDE_TEXT = ("attention_mask", "token_type_ids")  # as many places as the text has


def checked_inputs(arguments: dict[str, Any], seen: int = 0) -> dict[str, Any]:
    """The arguments of a call, those of one row given for all rows; `seen` tokens are in a cache."""
    name = text_name(arguments)
    shape = text_shape(name, arguments[name])
    return {
        key: fitted(key, value, (name, shape), seen) if key in BESIDE_TEXT else value
        for key, value in arguments.items()
    }


@cache
def argument_names(method: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a method's arguments, in their order."""
    return tuple(inspect.signature(method).parameters)[1:]


def text_name(arguments: dict[str, Any]) -> str:
    """The name of the argument that is the text: exactly one of ids and embeddings."""
    texts = [name for name in TEXTS if arguments.get(name) is not None]
    if len(texts) != 1:
        either = "input_ids and inputs_embeds are both given" if texts else "there is no text"
        raise ConfigError(f"{either}; give either input_ids or inputs_embeds")
    return texts[0]


def text_shape(name: str, text: Any) -> tuple[int, ...]:
    """(B, T), with choices (B, C, T); texts of no rows or no tokens are refused."""
    if name == "input_ids" and not (isinstance(text, Tensor) and text.dim() == 3):
        require_ids(text, name)
    if name == "inputs_embeds" and not (isinstance(text, Tensor) and text.is_floating_point()):
        kind = text.dtype if isinstance(text, Tensor) else type(text).__name__
        raise ConfigError(f"inputs_embeds of {kind} are no embeddings; give floats (batch, tokens, width)")
    shape = tuple(text.shape)
    places = shape if name == "input_ids" else shape[:-1]
    if len(places) not in (2, 3):
        raise ConfigError(f"{name} of shape {shape} are not rows; give (batch, tokens, width)")
    if 0 in places:
        raise DataError(f"{name} of shape {shape} have nothing to encode; leave such a batch out")
    return places


def fitted(name: str, value: Any, text: tuple[str, tuple[int, ...]], seen: int) -> Any:
    """A mask or types of the shape of the text, or of what the cache has seen and the text together."""
    is_wide_mask = name == "attention_mask" and isinstance(value, Tensor) and value.dim() == 4
    if not isinstance(value, Tensor) or is_wide_mask:  # who sees whom: refused where segments are cut
        return value
    shape = text[1]
    lengths = {shape[-1], shape[-1] + seen}
    rows = len(shape) == value.dim() and value.shape[:-1] in (shape[:-1], (1,) * (len(shape) - 1))
    if not rows or value.shape[-1] not in lengths:
        behind = f" behind {seen} tokens" if seen else ""
        raise ConfigError(
            f"{name} of shape {tuple(value.shape)} does not fit {text[0]} of {shape}{behind}; give what one "
            "call of the tokenizer gave"
        )
    return value.expand(*shape[:-1], -1)


def require_tokens(present: Tensor) -> None:
    """Refuse rows of a new text in which nothing exists, (B, T)."""
    rows = (~present.bool().any(-1)).nonzero().flatten().tolist()
    if rows:
        raise DataError(
            f"row {rows[0]} has no tokens: its attention_mask is 0 everywhere; leave the row out, or say "
            "with state= what it goes on from"
        )


def require_same_form(state: State, initial: State) -> None:
    """Refuse a state of another batch, another size of memory or another kind."""
    shapes, expected = (
        {name: tuple(tensor.shape) for name, tensor in form.named().items()} for form in (state, initial)
    )
    for name in {**expected, **shapes}:
        if shapes.get(name) != expected.get(name):
            raise ConfigError(
                f"state with {name} of shape {shapes.get(name, 'none')} does not fit this batch and memory: "
                f"{expected.get(name, 'none')}; give the state of these rows, or model.initial_state(batch)"
            )


def refuse_beside_cache(arguments: dict[str, Any], config: Any) -> None:
    """Raise for what a call with a cache would leave out."""
    recorded = ("output_attentions", "output_hidden_states")
    asked = [name for name in recorded if arguments.get(name, getattr(config, name, False))]
    dropped = [name for name in ("token_type_ids", "position_ids") if arguments.get(name) is not None]
    for name in (*asked, *dropped):
        raise ConfigError(f"{name} cannot be had with a cache of segments; call with use_cache=False")
