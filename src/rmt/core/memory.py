"""Memory tokens: [H^mem ∘ H^0 ∘ H^mem] in, H_{τ+1}^mem := H_τ^write out (section 3)."""

# B batch · L tokens · M memory · D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmt.core.config import MemoryConfig
from rmt.core.state import State
from rmt.nn.joining import join


class Memory(nn.Module):
    """M memory tokens around every segment; a size of zero adds nothing."""

    def __init__(self, config: MemoryConfig, width: int):
        super().__init__()
        self.config = config
        self.tokens = nn.Parameter(torch.empty(config.size, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial tokens from N(0, 1): the scale of the normalised states that follow them."""
        nn.init.normal_(self.tokens)
        if self.config.init == "identical":
            with torch.no_grad():
                self.tokens.copy_(self.tokens[:1].expand_as(self.tokens))

    def initial(self, batch: int) -> Tensor:
        return self.tokens.expand(batch, -1, -1)

    def incoming(self, state: State) -> Tensor:
        """The memory a segment starts from."""
        return state.memory if self.config.recurrent else self.initial(state.memory.shape[0])

    def wrap(self, embedded: Tensor, state: State) -> Tensor:
        """(B, L, D) -> [read ∘ tokens ∘ write] (B, M+L+M, D), the same memory at both ends."""
        memory = self.incoming(state).to(embedded.dtype)
        return join(memory, embedded, memory[:, : self.write_size])

    def carry(self, read: Tensor, write: Tensor, state: State) -> Tensor:
        """The memory for the next segment: H_{τ+1}^mem := H_τ^write."""
        if not self.config.recurrent:
            return self.incoming(state)
        kept = read if self.config.carries_read else write
        return kept.to(state.memory.dtype, copy=True)  # a view would keep the whole segment with it

    @property
    def write_size(self) -> int:
        return self.config.size if self.config.write else 0
