"""What a wrapped model is called with, checked before anything is computed: one line says what is wrong."""

# B batch · C choices · T places of the given rows · D width

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from torch import Tensor

from rmt.core.inputs import require_ids
from rmt.core.state import State
from rmt.errors import ConfigError, DataError, shown

TEXTS = ("input_ids", "inputs_embeds")
BESIDE_TEXT = ("attention_mask", "token_type_ids")  # as many places as the text has


class TextForm(NamedTuple):
    """What a text has to be for a call of a model."""

    width: int  # D of embeddings
    choices: bool = False  # rows may have choices
    seen: int = 0  # tokens in a cache


def checked_inputs(arguments: dict[str, Any], form: TextForm) -> dict[str, Any]:
    """The arguments of a call, those of one row given for all rows."""
    name = text_name(arguments)
    shape = text_shape(name, arguments[name], form)
    return {
        key: fitted(key, value, (name, shape), form.seen) if key in BESIDE_TEXT else value
        for key, value in arguments.items()
    }


def named_arguments(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """All arguments of a method by their names; too many of them and those given twice are errors."""
    names, title = positional_names(method), method.__qualname__
    if len(args) > len(names):
        raise TypeError(
            f"{title}() takes at most {len(names)} positional arguments but {len(args)} were given"
        )
    for name in names[: len(args)]:
        if name in kwargs:
            raise TypeError(f"{title}() got multiple values for argument {name!r}")
    return {**dict(zip(names, args, strict=False)), **kwargs}


@cache
def positional_names(method: Callable[..., Any]) -> tuple[str, ...]:
    """The names of those arguments of a method that can be given by their places."""
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return tuple(
        parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    )


def text_name(arguments: dict[str, Any]) -> str:
    """The name of the argument that is the text: exactly one of ids and embeddings."""
    texts = [name for name in TEXTS if arguments.get(name) is not None]
    if len(texts) != 1:
        either = "input_ids and inputs_embeds are both given" if texts else "there is no text"
        raise ConfigError(f"{either}; give either input_ids or inputs_embeds")
    return texts[0]


def text_shape(name: str, text: Any, form: TextForm) -> tuple[int, ...]:
    """(B, T), with choices (B, C, T); texts of no rows, no tokens or another width are refused."""
    has_choices = form.choices and isinstance(text, Tensor) and text.dim() == 3
    if name == "input_ids" and not has_choices:
        require_ids(text, name)
    if name == "inputs_embeds" and not (isinstance(text, Tensor) and text.is_floating_point()):
        kind = text.dtype if isinstance(text, Tensor) else type(text).__name__
        raise ConfigError(f"inputs_embeds of {kind} are no embeddings; give floats (batch, tokens, width)")
    shape = tuple(text.shape)
    places = shape if name == "input_ids" else shape[:-1]
    if len(places) not in ((2, 3) if form.choices else (2,)):
        raise ConfigError(f"{name} of shape {shape} are not rows; give (batch, tokens, width)")
    if name == "inputs_embeds" and shape[-1] != form.width:
        raise ConfigError(
            f"{name} of shape {shape} are not {form.width} wide; give (batch, tokens, {form.width})"
        )
    if 0 in places:
        raise DataError(f"{name} of shape {shape} have nothing to encode; leave such a batch out")
    return places


def fitted(name: str, value: Any, text: tuple[str, tuple[int, ...]], seen: int) -> Any:
    """A mask or types of the shape of the text, or of what the cache has seen and the text together."""
    if value is None:
        return None
    if not isinstance(value, Tensor):
        raise ConfigError(f"{name}={shown(value)} is no tensor; give (batch, tokens)")
    if name == "attention_mask" and value.dim() == 4:
        raise ConfigError("attention_mask must be (batch, tokens): each segment makes its own wider mask")
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
    for name in asked:
        raise ConfigError(f"{name} cannot be had with a cache of segments; call with use_cache=False")
    refuse_token_types(arguments)


def refuse_token_types(arguments: dict[str, Any]) -> None:
    """Raise for token types, which a segment in a cache would go on without."""
    if arguments.get("token_type_ids") is not None:
        raise ConfigError("token_type_ids cannot be had with a cache of segments; call with use_cache=False")


def refuse_in_segments(arguments: dict[str, Any], config: Any) -> None:
    """Raise for what cannot be cut into segments."""
    if arguments.get("position_ids") is not None:
        raise ConfigError("position_ids are counted anew in each segment; leave them out")
    if arguments.get("output_router_logits", getattr(config, "output_router_logits", False)):
        raise ConfigError(
            "output_router_logits=True would weigh the experts of the last segment only; set "
            "model.config.output_router_logits=False"
        )
    if arguments.get("output_attentions") and config._attn_implementation not in ("eager", None):
        raise ConfigError(
            f"output_attentions=True gives nothing with attn_implementation="
            f"{config._attn_implementation!r}; call model.set_attn_implementation('eager') first"
        )
