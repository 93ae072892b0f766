"""Associative memory in every layer: the write block stores under keys what later segments look up.

As in the Associative Recurrent Memory Transformer (Rodkin et al., 2024), with a delta rule that cannot grow
without bounds: keys of unit length, and what is written at once under one key shares one correction.
"""

# B batch · n rows · W write block · K features of a key · D width

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmt.core.config import MemoryConfig
from rmt.core.memory import Carried, Memory
from rmt.core.spans import Spans
from rmt.errors import ConfigError

MAX_KEY_WIDTH = 64  # numbers that a key is computed from, as in the paper's models; narrow layers have fewer


class AssociativeMemory(Memory):
    """A_n (B, K, D) in every layer n, empty at first: h + g φ(Q h) A_n before the layer, written behind it.

    The gate g (D,) starts at zero: a model with this memory is at first the model without it, on the same
    segments. A gate, and no matrix, since it has to be learned from the few texts of a fine-tuning.
    """

    local = True
    always_writes = True

    def __init__(self, config: MemoryConfig, width: int, layers: int):
        super().__init__(config, width, layers)
        require_usable(config)
        keys = min(MAX_KEY_WIDTH, width)
        self.write_size = config.size
        self.tokens = nn.Embedding(config.size, width, _weight=torch.empty(config.size, width))
        self.query = nn.Parameter(torch.empty(layers, width, keys))
        self.key = nn.Parameter(torch.empty(layers, width, keys))
        self.strength = nn.Parameter(torch.empty(layers, width))
        self.gate = nn.Parameter(torch.empty(layers, width))

    def reset_parameters(self) -> None:
        """Draw the tokens and projections; nothing is read yet, and every write counts half."""
        nn.init.normal_(self.tokens.weight)
        for projection in (self.query, self.key):
            nn.init.normal_(projection, std=self.width**-0.5)
        nn.init.zeros_(self.strength)
        nn.init.zeros_(self.gate)

    def initial(self, batch: int) -> Carried:
        """Nothing; in float32 at least, since small corrections add up."""
        weight = self.gate
        empty = weight.new_zeros(batch, 2 * self.key.shape[-1], self.width)
        return {"A": (empty.to(torch.promote_types(weight.dtype, torch.float32)),) * self.layers}

    def write_block(self, carried: Carried) -> Tensor:
        """The same tokens in every segment: what is remembered reaches them in the layers."""
        return self.tokens.weight.expand(len(carried["A"][0]), -1, -1)

    def before(self, layer: int, hidden: Tensor, carried: Carried) -> Tensor:
        """h + g φ(Q h) A."""
        matrix = carried["A"][layer]
        query = features(project(normalised(hidden), self.query[layer])).to(matrix.dtype)  # (B, n, K)
        recalled = query @ matrix  # (B, n, D)
        added: Tensor = self.gate[layer] * recalled
        return hidden + added.to(hidden.dtype)

    def after(self, layer: int, hidden: Tensor, spans: Spans, carried: Carried) -> Carried:
        """A + Σ_w c_w k_w (v_w - k_w A)ᵀ, where c_w = β_w / Σ_u k_w·k_u keeps its eigenvalues in [0, 1]."""
        *_, write = spans.split(hidden)
        value, matrix = normalised(write), carried["A"][layer]
        key = features(project(value, self.key[layer])).to(matrix.dtype)  # (B, W, K)
        strength = torch.sigmoid(project(value, self.strength[layer])).to(matrix.dtype)
        shared = strength / (key @ key.mT).sum(-1)  # (B, W)
        correction = shared[..., None] * (value.to(matrix.dtype) - key @ matrix)
        matrices = list(carried["A"])
        matrices[layer] = (matrix + key.mT @ correction).to(matrix.dtype)
        return {"A": tuple(matrices)}


def require_usable(config: MemoryConfig) -> None:
    """Refuse settings by which nothing would be written, or read."""
    for field, value in (("size", config.size), ("write", config.write), ("recurrent", config.recurrent)):
        if not value:
            raise ConfigError(
                f"memory.kind={config.kind!r} with memory.{field}={value} would remember nothing; "
                f"{'choose at least 1' if field == 'size' else 'switch it on'}, or use memory.kind='tokens'"
            )


def normalised(hidden: Tensor) -> Tensor:
    """Rows of root mean square 1, whatever the scale of a layer."""
    return nn.functional.rms_norm(hidden, hidden.shape[-1:], eps=1e-6)


def project(hidden: Tensor, weight: Tensor) -> Tensor:
    """Rows times a weight, in the weight's format: memory may be in float32 where its model is not."""
    return hidden.to(weight.dtype) @ weight


def features(projected: Tensor) -> Tensor:
    """φ(x): the positive and the negative part of x, of unit length together: keys never cancel."""
    return nn.functional.normalize(torch.cat([projected, -projected], dim=-1).relu(), dim=-1, eps=1e-6)
