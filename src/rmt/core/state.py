"""What a segment hands to the next one: memory and cache, as one value."""

# B batch · M memory · C cache · N layers · D width

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmt.core.tree import Tree, tree_items, tree_like, tree_map
from rmt.errors import ConfigError

TOKENS = "tokens"  # where a memory of tokens keeps them


class Parts(NamedTuple):
    """The fields of a state."""

    carried: Mapping[str, Tree]  # tensors (B, …), H_τ^mem or what another kind of memory has; carry gradient
    cache: tuple[Tensor, ...]  # N × (B, C, D)  SG(M^n): layer inputs, right-aligned, never carries gradient
    cached: Tensor  # (B,)           how many cache rows are valid


class State(Parts):
    """The state between two segments; every tensor has a row per sequence."""

    __slots__ = ()

    def __new__(cls, *parts: Any, **named: Any) -> State:
        """`State(memory=tensor, …)` stands for `State({"tokens": tensor}, …)`.

        Three parts are taken as they are: torch makes states of what only stands for tensors.
        """
        if named or len(parts) != len(Parts._fields) or isinstance(parts[0], Tensor):
            parts = complete(*parts, **named)
        return super().__new__(cls, *parts)

    def __repr__(self) -> str:
        """Its sizes in a line; the numbers are in its tensors."""
        if not isinstance(self.cached, Tensor):
            return super().__repr__()  # of what only stands for tensors
        named = {"memory" if name == TOKENS else name: part for name, part in self.carried.items()}
        if any(rows.numel() for rows in self.cache):
            named["cache"] = self.cache
        parts = [f"{name} {sizes(part)}" for name, part in named.items()]
        return f"State(batch {len(self.cached)}, {', '.join(parts)}, {self.nbytes:,} bytes)"

    @property
    def memory(self) -> Tensor:
        """The memory tokens H_τ^mem (B, M, D), where memory is of the kind `tokens`."""
        if TOKENS not in self.carried:
            names = ", ".join(self.carried)
            raise ConfigError(f"this memory has no tokens: state.carried has {names or 'nothing'}")
        tokens: Tensor = self.carried[TOKENS]
        return tokens

    def with_memory(self, memory: Tensor) -> State:
        """The same state with other memory tokens (B, M, D)."""
        return self._replace(memory=memory)

    def _replace(self, **parts: Any) -> State:
        """As of every named tuple; `memory` stands for the tokens, as in the constructor."""
        if "memory" in parts:
            parts = {"carried": {**self.carried, TOKENS: parts.pop("memory")}, **parts}
        return super()._replace(**parts)

    def flat(self) -> tuple[Tensor, ...]:
        """All tensors in a row."""
        return *(tensor for _, tensor in tree_items(self.carried)), self.cached, *self.cache

    def unflatten(self, tensors: Iterable[Tensor]) -> State:
        """A state of the same form, made of the tensors that `flat` gave."""
        rest = iter(tensors)
        carried, cached = tree_like(self.carried, rest), next(rest)
        return State(carried, tuple(rest), cached)

    def named(self) -> dict[str, Tensor]:
        """All tensors by their names in files: `memory` for the tokens, `memory.A.0` for another kind's."""
        carried = {
            "memory" if path == TOKENS else f"memory.{path}": tensor
            for path, tensor in tree_items(self.carried)
        }
        cache = {f"cache.{layer}": rows for layer, rows in enumerate(self.cache)}
        return {**carried, "cached": self.cached, **cache}

    def map(self, function: Callable[..., Tensor], *others: State) -> State:
        """`function` of each tensor and of the tensors in the same position of `others`."""
        return State(
            tree_map(function, self.carried, *(other.carried for other in others)),
            tree_map(function, self.cache, *(other.cache for other in others)),
            function(self.cached, *(other.cached for other in others)),
        )

    def detach(self) -> State:
        """The same state with its history cut off: the one place where memory loses its gradient."""
        return self._replace(carried=tree_map(Tensor.detach, self.carried))

    def where(self, rows: Tensor, other: State) -> State:
        """This state in the batch rows where `rows` (B,) is true, `other` elsewhere."""

        def chosen(mine: Tensor, theirs: Tensor) -> Tensor:
            return torch.where(rows.view(-1, *(1,) * (mine.dim() - 1)), mine, theirs)

        return self.map(chosen, other)

    def with_dtypes_of(self, form: State) -> State:
        """The same state in the number formats of another."""
        return self.map(lambda tensor, like: tensor.to(like.dtype), form)

    def to(self, device: torch.device | str) -> State:
        """The same state on a device."""
        return self.map(lambda tensor: tensor.to(device))

    @property
    def nbytes(self) -> int:
        """Bytes of memory and cache together: what a stream costs, however long it is."""
        return sum(tensor.nbytes for tensor in self.flat()) - self.cached.nbytes


def complete(
    carried: Any = None, cache: Iterable[Tensor] = (), cached: Tensor | None = None, memory: Any = None
) -> Parts:
    """The parts of a state from what a user gave: tokens or a tree, a cache or none."""
    tokens = carried if isinstance(carried, Tensor) else memory
    if (tokens is None) == (carried is None or isinstance(carried, Tensor)):
        raise ConfigError("a State takes either memory=tokens (B, M, D) or what its memory carries")
    tree = carried if tokens is None else {TOKENS: tokens}
    if cached is None:
        batch = next(tensor for _, tensor in tree_items(tree))
        cached = torch.zeros(len(batch), dtype=torch.long, device=batch.device)
    return Parts(tree, tuple(cache), cached)


def sizes(tree: Tree) -> str:
    """The sizes of a row's tensors in a line, as 8 × 64; of several alike, how many, too."""
    shapes = [tensor.shape[1:] for _, tensor in tree_items(tree)]
    alike = dict.fromkeys((shapes.count(shape), *shape) if len(shapes) > 1 else shape for shape in shapes)
    return " and ".join(" × ".join(map(str, shape)) or "1" for shape in alike) or "none"
