"""What a segment model can be called with: ids (B, L) and a state of its own form; the rest is one line."""

# B batch · L tokens · R read block · D width

from __future__ import annotations

from collections.abc import Set
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from rmt.config import positive
from rmt.core.config import ModelConfig
from rmt.core.state import State
from rmt.core.tree import tree_items
from rmt.errors import ConfigError, shown

ID_TYPES = (torch.int64, torch.int32)  # what an embedding takes


def require_config(config: Any) -> ModelConfig:
    """Refuse what describes no model."""
    if not isinstance(config, ModelConfig):
        raise ConfigError(
            f"config={shown(config)} is not a ModelConfig; give rmt.ModelConfig(…), or one of rmt.presets"
        )
    return config


def whole_number(name: str, value: Any, *, zero: bool = False) -> int:
    """A number of rows or tokens, Python's or numpy's, above zero (or at least zero)."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ConfigError(f"{name}={shown(value)} is not a whole number")
    positive(name, int(value), zero=zero)
    return int(value)


def require_ids(tokens: Any, name: str = "tokens") -> None:
    """Refuse what is not a tensor of token ids (B, L)."""
    if not isinstance(tokens, Tensor):
        raise ConfigError(
            f"{name}={shown(tokens)} is no tensor; give ids (batch, length), such as torch.tensor([[1, 2]])"
        )
    if tokens.dtype not in ID_TYPES:
        raise ConfigError(f"{name} of type {tokens.dtype} are not ids; give whole numbers, int64 or int32")
    if tokens.dim() != 2:
        raise ConfigError(f"{name} of shape {tuple(tokens.shape)} are not rows; give ids (batch, length)")


def require_lengths(lengths: Any, tokens: Tensor) -> None:
    """Refuse what does not say how many tokens each row (B, L) has."""
    if not isinstance(lengths, Tensor) or lengths.dtype not in ID_TYPES or lengths.shape != tokens.shape[:1]:
        raise ConfigError(
            f"lengths={shown(lengths)} is not a whole number per row; give a tensor ({len(tokens)},) of int64"
        )
    if ((lengths < 0) | (lengths > tokens.shape[1])).any():
        raise ConfigError(
            f"lengths={lengths.tolist()} must be 0 to {tokens.shape[1]}, the length of the rows"
        )


def require_targets(targets: Any, tokens: Tensor) -> Tensor:
    """The ids to predict at each place of the tokens (B, L), as int64; refuse what does not say them."""
    require_ids(targets, "targets")
    if targets.shape != tokens.shape:
        raise ConfigError(
            f"targets of shape {tuple(targets.shape)} do not fit tokens of shape {tuple(tokens.shape)}; give "
            "the id to predict at each place"
        )
    ids: Tensor = targets.long()
    return ids


def require_reset(reset: Any, tokens: Tensor) -> None:
    """Refuse what does not say which rows (B,) start anew."""
    if not isinstance(reset, Tensor) or reset.dtype != torch.bool or reset.shape != tokens.shape[:1]:
        raise ConfigError(
            f"reset={shown(reset)} is not a truth value per row; give a tensor ({len(tokens)},) of bool"
        )


def require_state(state: Any) -> None:
    """Refuse what is no state, such as its memory alone."""
    if not isinstance(state, State):
        raise ConfigError(
            f"state={type(state).__name__} is not a State; start with model.initial_state(batch), and go on "
            "with output.state"
        )


def require_segment(tokens: Any, state: Any, config: ModelConfig) -> None:
    """Refuse tokens that are not ids, and a state of other rows or of another cache."""
    require_state(state)
    require_ids(tokens)
    if len(tokens) != len(state.cached):
        raise ConfigError(
            f"tokens of shape {tuple(tokens.shape)} do not fit a state of {len(state.cached)} rows; "
            "give tokens (batch, length) and model.initial_state(batch)"
        )
    require_cache(state, config)


def require_cache(state: State, config: ModelConfig) -> None:
    """Refuse the cache of another model."""
    sizes = [tuple(rows.shape[1:]) for rows in state.cache]
    size, expected = config.cache.rows, [(config.cache.rows, config.width)] * config.layers
    if sizes != expected:
        raise ConfigError(
            f"a state whose cache is {shown(sizes)} is not this model's, {config.layers} × {size} × "
            f"{config.width}; give model.initial_state(batch), or the output.state of this model"
        )


def require_carried(state: State, names: Set[str]) -> None:
    """Refuse what another kind of memory carries, and memory of other rows."""
    if state.carried.keys() != names:
        raise ConfigError(
            f"a state that carries {', '.join(state.carried)} is not this model's, whose memory carries "
            f"{', '.join(sorted(names))}; give model.initial_state(batch), or the output.state of this model"
        )
    rows = {len(tensor) for _, tensor in tree_items(state.carried)}
    if rows - {len(state.cached)}:
        raise ConfigError(
            f"a state with memory of {max(rows)} rows is of {len(state.cached)}; "
            "give model.initial_state(batch)"
        )


def require_read_block(read: Tensor, size: int, width: int) -> Tensor:
    """Refuse the memory of another model, as the block (B, R, D) that it would read."""
    if tuple(read.shape[1:]) != (size, width):
        raise ConfigError(
            f"a state with memory of {read.shape[1]} × {read.shape[2]} is not this model's, {size} × "
            f"{width}; give model.initial_state(batch), or the output.state of this model"
        )
    return read


def unknown_ids(vocabulary: int, name: str = "tokens") -> ConfigError:
    """The error for ids that have no embedding; on a GPU, which does not tell, torch has its own."""
    return ConfigError(f"{name} hold an id that is not in the vocabulary; ids are 0 to {vocabulary - 1}")
