"""What a segment hands to the next one: memory and cache, as one value."""

# B batch · M memory · C cache · N layers · D width

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class State(NamedTuple):
    """The state between two segments."""

    memory: Tensor  # (B, M, D)      H_τ^mem, carries gradient
    cache: tuple[Tensor, ...]  # N × (B, C, D)  SG(M^n): layer inputs, right-aligned, never carries gradient
    cached: Tensor  # (B,)           how many cache rows are valid

    @classmethod
    def of(cls, memory: Tensor, cached: Tensor, *cache: Tensor) -> State:
        """The state of the tensors that `flat` gave."""
        return cls(memory, cache, cached)

    def flat(self) -> tuple[Tensor, ...]:
        """All tensors in a row."""
        return self.memory, self.cached, *self.cache

    def detach(self) -> State:
        """The same state with its history cut off: the one place where memory loses its gradient."""
        return self._replace(memory=self.memory.detach())

    def where(self, rows: Tensor, other: State) -> State:
        """This state in the batch rows where `rows` (B,) is true, `other` elsewhere."""
        wide = rows[:, None, None]
        return State(
            torch.where(wide, self.memory, other.memory),
            tuple(
                torch.where(wide, mine, yours) for mine, yours in zip(self.cache, other.cache, strict=True)
            ),
            torch.where(rows, self.cached, other.cached),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory and cache together: what a stream costs, however long it is."""
        return sum(tensor.nbytes for tensor in (self.memory, *self.cache))
