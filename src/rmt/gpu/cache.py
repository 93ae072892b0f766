"""The cache inside an update: rows stay where the layers wrote them, in their number format."""

# B batch · C cache · D width

from __future__ import annotations

from torch import Tensor

from rmt.core.cache import Cache
from rmt.core.config import CacheConfig


class FastCache(Cache):
    """SG(M^n_{-C:}), a view where a segment fills it.

    It has the number format of the layers: whoever ends an update, or leaves the engine, formats the state.
    """

    def __init__(self, config: CacheConfig, copies: bool):
        """A view keeps the segment with it, so segments that are to be recomputed have copies."""
        super().__init__(config)
        self.copies = copies

    def last_rows(self, old: Tensor, new: Tensor) -> Tensor:
        if new.shape[1] >= self.size and not self.copies:
            return new[:, new.shape[1] - self.size :]
        return super().last_rows(old.to(new.dtype), new)
