"""Copies of modules around the same weights: a call computes otherwise than its model, and changes nothing.

A copy is shallow: its parameters, buffers and hooks are those of its module. So a call can put itself in the
place of a part, in any number of threads, and what is computed again in the backward pass finds it there.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from torch import nn
from transformers import PreTrainedConfig


def shallow(module: Any) -> Any:
    """Another module around everything that a module has, made as torch makes replicas.

    `copy.copy` would ask the class for a new one, and sharded classes run their `__init__` then.
    """
    copied = object.__new__(type(module))
    copied.__dict__ = module.__dict__.copy()
    return copied


def with_part(module: nn.Module, path: str, part: nn.Module) -> nn.Module:
    """A copy of a module with `part` at a dotted path; the modules on the way there are copied, too."""
    name, _, rest = path.partition(".")
    replacement = with_part(module.get_submodule(name), rest, part) if rest else part
    copied = shallow(module)
    copied._modules = {**module._modules, name: replacement}
    return copied


def with_forward(module: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """A copy of a module that answers by another `forward`; the module's hooks are called around it."""
    copied = shallow(module)
    copied.__dict__["forward"] = forward
    return copied


def with_attention(module: Any, implementation: str) -> Any:
    """A copy of a model and of all its parts that attends by another implementation."""
    configs: dict[int, Any] = {}

    def change(copied: Any) -> None:
        config = copied.__dict__.get("config")
        if isinstance(config, PreTrainedConfig):
            if id(config) not in configs:
                configs[id(config)] = deepcopy(config)
                configs[id(config)]._attn_implementation = implementation
            copied.config = configs[id(config)]

    return with_every_part(module, change)


def with_weights(module: Any, weights: dict[int, nn.Parameter]) -> Any:
    """A copy of a model and of all its parts around other weights, by the `id` of those they replace."""

    def change(copied: Any) -> None:
        copied._parameters = {
            name: None if weight is None else weights[id(weight)]
            for name, weight in copied._parameters.items()
        }

    return with_every_part(module, change)


def with_every_part(module: Any, change: Callable[[Any], None], copies: dict[int, Any] | None = None) -> Any:
    """A copy of a module and of all its parts, each changed after it was copied; shared parts stay shared."""
    copies = {} if copies is None else copies
    if module is None or id(module) in copies:
        return copies.get(id(module))
    copied = copies[id(module)] = shallow(module)
    change(copied)
    copied._modules = {name: with_every_part(part, change, copies) for name, part in module._modules.items()}
    return copied
