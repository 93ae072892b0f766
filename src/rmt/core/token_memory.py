"""Memory tokens: [H^mem ∘ H^0 ∘ H^mem] in, H_{τ+1}^mem := H_τ^write out (section 3)."""

# B batch · M memory · D width

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rmt.core.config import MemoryConfig
from rmt.core.memory import Carried, Memory
from rmt.core.state import TOKENS

# by the names they had in 0.1.0: a parameter in native models, memory itself an embedding in wrapped ones
EARLIER = {"tokens": "tokens.weight", "weight": "tokens.weight"}


class TokenMemory(Memory):
    """M memory tokens around every segment; a size of zero adds nothing."""

    def __init__(self, config: MemoryConfig, width: int, layers: int):
        super().__init__(config, width, layers)
        self.read_size, self.write_size = config.size, config.size if config.write else 0
        # an embedding, since adapters of pretrained models train and save modules, not parameters
        self.tokens = nn.Embedding(config.size, width, _weight=torch.empty(config.size, width))

    def reset_parameters(self) -> None:
        """Draw the initial tokens from N(0, 1): the scale of the normalised states that follow them."""
        nn.init.normal_(self.tokens.weight)
        if self.config.init == "identical":
            with torch.no_grad():
                self.tokens.weight.copy_(self.tokens.weight[:1].expand_as(self.tokens.weight))

    def initial(self, batch: int) -> Carried:
        return {TOKENS: self.tokens.weight.expand(batch, -1, -1)}

    def read_block(self, carried: Carried) -> Tensor:
        """The memory a segment starts from."""
        tokens: Tensor = carried[TOKENS] if self.config.recurrent else self.initial(rows(carried))[TOKENS]
        return tokens

    def write_block(self, carried: Carried) -> Tensor:
        """The same memory again."""
        return self.read_block(carried)[:, : self.write_size]

    def carry(self, read: Tensor, write: Tensor, carried: Carried) -> Carried:
        """H_{τ+1}^mem := H_τ^write; without a write block, the read block is handed on."""
        if not self.config.recurrent:  # every segment reads the initial memory, whatever is carried
            return carried
        kept = read if self.carries_read else write
        # a view would keep the whole segment with it
        return {TOKENS: kept.to(carried[TOKENS].dtype, copy=True)}

    @property
    def initial_names(self) -> tuple[str, ...]:
        return ("tokens.weight",) if self.config.recurrent else ()

    @property
    def carries_read(self) -> bool:
        return self.config.carries_read

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Also weights of 0.1.0, by their earlier names."""
        for earlier, name in EARLIER.items():
            if prefix + earlier in state_dict:
                state_dict[prefix + name] = state_dict.pop(prefix + earlier)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def rows(carried: Carried) -> int:
    """The batch of what is carried."""
    return len(carried[TOKENS])
