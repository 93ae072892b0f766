"""What a kind of memory does: around a segment, around each layer, and from one segment to the next."""

# B batch · L tokens · R read block · W write block · D width

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from rmt.core.config import MEMORY_KINDS, MemoryConfig
from rmt.core.spans import Spans
from rmt.core.tree import Tree, tree_items
from rmt.errors import ConfigError
from rmt.location import class_at

Carried = Mapping[str, Tree]  # a tree of tensors (B, …)


class Memory(nn.Module):
    """The interface of a kind of memory; what a kind does not override adds nothing, `initial` it must have.

    `before` and `after` are called in every layer. A kind that lives there learns from the write block only,
    which every row has whole: so a segment can be encoded in pieces, and rows may be ragged.
    """

    local: ClassVar[bool] = False  # whether layer n's part of what is carried depends on layer n only
    always_writes: ClassVar[bool] = False  # whether it has a write block where memory tokens have none, too
    read_size: int = 0  # R
    write_size: int = 0  # W

    def __init__(self, config: MemoryConfig, width: int, layers: int):
        super().__init__()
        self.config, self.width, self.layers = config, width, layers

    def reset_parameters(self) -> None:
        """Draw the initial parameters; called once the module is built, and by whoever wants them anew."""

    def initial(self, batch: int) -> Carried:
        """What the first segment of `batch` sequences starts from: tensors with a row for each of them."""
        raise NotImplementedError

    def read_block(self, carried: Carried) -> Tensor:
        """What stands in front of the segment's tokens, (B, R, D)."""
        return self.no_block(carried)

    def write_block(self, carried: Carried) -> Tensor:
        """What stands behind them, (B, W, D)."""
        return self.no_block(carried)

    def before(self, layer: int, hidden: Tensor, carried: Carried) -> Tensor:
        """The input of a layer (B, n, D), with what memory adds to it."""
        return hidden

    def after(self, layer: int, hidden: Tensor, spans: Spans, carried: Carried) -> Carried:
        """What is carried after a layer whose output (B, n, D) lies on `spans`."""
        return carried

    def carry(self, read: Tensor, write: Tensor, carried: Carried) -> Carried:
        """What the next segment starts from, by the last layer's outputs (B, R, D) and (B, W, D)."""
        return carried

    def no_block(self, carried: Carried) -> Tensor:
        """A block of no rows, (B, 0, D)."""
        _, tensor = next(tree_items(carried))
        return tensor.new_empty(len(tensor), 0, self.width)

    @property
    def initial_names(self) -> tuple[str, ...]:
        """The parameters that only `initial` makes use of: without a first segment, an update leaves them."""
        return ()

    @property
    def carries_read(self) -> bool:
        """Whether `carry` looks at the read block's outputs."""
        return False

    @property
    def in_layers(self) -> bool:
        """Whether this kind does anything before or after a layer."""
        return type(self).before is not Memory.before or type(self).after is not Memory.after


class LayerMemory:
    """Memory in the layers of one segment: they see what it started from and change what it leaves."""

    def __init__(self, memory: Memory, carried: Carried, *spans: Spans):
        """`spans` on which outputs of layers may lie: the last layer can give fewer rows than the others."""
        self.memory, self.entering, self.leaving = memory, carried, carried
        self.spans = {lengths.queries: lengths for lengths in spans}

    def before(self, layer: int, hidden: Tensor) -> Tensor:
        """The input of a layer."""
        return self.memory.before(layer, hidden, self.entering)

    def after(self, layer: int, hidden: Tensor) -> None:
        """Learn from the output of a layer, if the write block is in it."""
        spans = self.spans[hidden.shape[1]]
        if spans.write:
            self.leaving = self.memory.after(layer, hidden, spans, self.leaving)


def memory_class(kind: str) -> type[Memory]:
    """The class of a kind of memory."""
    location = MEMORY_KINDS.get(kind, kind)
    named: type[Memory] = class_at(location, Memory, "rmt.core.memory", f"memory.kind={kind!r}")
    if named.initial is Memory.initial:
        raise ConfigError(f"memory.kind={kind!r}: class {named.__name__!r} is unfinished; define: initial")
    return named


def build_memory(config: MemoryConfig, width: int, layers: int) -> Memory:
    """The memory of a configuration, of its kind, with its parameters drawn."""
    memory = memory_class(config.kind)(config, width, layers)
    memory.reset_parameters()
    return memory
