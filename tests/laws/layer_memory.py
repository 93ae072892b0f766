"""A toy kind of memory that lives in the layers: what a kind has to be, in one file and one line."""

# B batch · W write block · D width

import torch
from torch import Tensor, nn

from rmt.core.config import MEMORY_KINDS, MemoryConfig
from rmt.core.memory import Carried, Memory
from rmt.core.spans import Spans


class LayerAverage(Memory):
    """A vector per layer: a gate adds it to the layer's input, and the write block is averaged into it."""

    local = True

    def __init__(self, config: MemoryConfig, width: int, layers: int):
        super().__init__(config, width, layers)
        self.write_size = config.size
        self.tokens = nn.Embedding(config.size, width)
        self.start = nn.Parameter(torch.zeros(layers, width))
        self.value = nn.Parameter(torch.randn(layers, width, width) * width**-0.5)
        self.gate = nn.Parameter(torch.zeros(layers))  # closed at first: a model with it is the model without

    def initial(self, batch: int) -> Carried:
        return {"average": tuple(row.expand(batch, -1) for row in self.start)}

    def write_block(self, carried: Carried) -> Tensor:
        return self.tokens.weight.expand(len(carried["average"][0]), -1, -1)

    def before(self, layer: int, hidden: Tensor, carried: Carried) -> Tensor:
        return hidden + (self.gate[layer] * carried["average"][layer])[:, None].to(hidden.dtype)

    def after(self, layer: int, hidden: Tensor, spans: Spans, carried: Carried) -> Carried:
        *_, write = spans.split(hidden)
        average = list(carried["average"])
        said = torch.tanh(write.mean(1) @ self.value[layer].to(hidden.dtype))
        average[layer] = (average[layer] + said.to(average[layer].dtype)) / 2
        return {"average": tuple(average)}


MEMORY_KINDS["layer_average"] = "tests.laws.layer_memory:LayerAverage"
