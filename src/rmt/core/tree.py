"""Trees of tensors: what a memory carries is a tensor, a tuple of trees, or a dictionary of trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

Tree = Any  # Tensor | tuple[Tree, ...] | Mapping[str, Tree]


def tree_map(function: Callable[..., Tensor], tree: Tree, *others: Tree) -> Tree:
    """The tree of `function` of each tensor and of the tensors in the same position of `others`."""
    if isinstance(tree, Tensor):
        return function(tree, *others)
    if isinstance(tree, tuple):
        return tuple(tree_map(function, *parts) for parts in zip(tree, *others, strict=True))
    return {name: tree_map(function, part, *(other[name] for other in others)) for name, part in tree.items()}


def tree_items(tree: Tree, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor with its dotted path, such as `A.0`, in a fixed order."""
    if isinstance(tree, Tensor):
        yield path, tree
        return
    parts = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    for name, part in parts:
        yield from tree_items(part, f"{path}.{name}" if path else str(name))


def tree_like(tree: Tree, tensors: Iterator[Tensor]) -> Tree:
    """A tree of the same form, made of the next tensors in the order of `tree_items`."""
    return tree_map(lambda _: next(tensors), tree)
