"""Token tables in an update: segments look tokens up, and the gradient of all of them is made at once."""

# S seeds · V rows of the table · D width · N tokens

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.gpu.cross_entropy import OutputLayer, TableSlice
from rmt.gpu.padding import add_gradient
from rmt.gpu.settings import EngineSettings
from rmt.gpu.tiles import padded
from rmt.gpu.weight_gradients import add_product, sum_format
from rmt.nn.adaptive import AdaptiveEmbedding, Rows
from rmt.nn.embedding import TiedEmbedding
from rmt.nn.joining import laid

# of a matrix that chooses rows, so that a product sums them up: 32 MB of bfloat16
MAX_CHOICE_ELEMENTS = 2**24


class FastTiedEmbedding(TiedEmbedding):
    """One table for tokens in and out."""

    table: TokenTable

    def forward(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = Lookup.apply(self.weight, tokens, self.table)
        return embedded

    def scored(
        self, hidden: Tensor, targets: Tensor, capacities: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        return self.table.outputs[0].losses(hidden, targets, keep=True)


class FastAdaptiveEmbedding(AdaptiveEmbedding):
    """One table whose slices are the clusters of an adaptive softmax."""

    table: TokenTable

    def forward(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = Lookup.apply(self.words.weight, tokens, self.table)
        return embedded

    def entropy(self, hidden: Tensor, targets: Tensor, cluster: int, rows: Rows) -> Tensor:
        return self.table.outputs[cluster].losses(hidden, targets, keep=False)[1]


class TokenTable:
    """A table (V, D) for tokens in and out, or S stacked ones, its output layers and its gradients."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        outputs: Sequence[OutputLayer],
        settings: EngineSettings,
        dtype: torch.dtype,
    ):
        """Weight and bias are the first slices of the `outputs`; rows are looked up in `dtype`."""
        self.weight, self.bias, self.outputs, self.settings = weight, bias, outputs, settings
        self.dtype, self.scale = dtype, math.sqrt(weight.shape[-1])
        self.begin()

    def begin(self) -> None:
        """Take over the table as it is now, with a gradient of zero."""
        self.waiting: list[tuple[Tensor, Tensor]] = []  # row numbers and the gradients of those rows
        self.scaled: Tensor | None = None  # the whole table, if that has fewer rows than are looked up
        for output in self.outputs:
            output.begin()

    def look_up(self, numbers: Tensor) -> Tensor:
        """Rows times sqrt(D); what is shorter is scaled, the rows or the table."""
        weight = self.weight.detach()
        if weight[..., 0].numel() > numbers.numel():
            return (F.embedding(numbers, weight.flatten(0, -2)) * self.scale).to(self.dtype)
        if self.scaled is None:
            self.scaled = (weight * self.scale).flatten(0, -2).to(self.dtype)
        return F.embedding(numbers, self.scaled)

    def wait(self, numbers: Tensor, gradient: Tensor) -> None:
        """Let the gradients of looked-up rows wait for their sum, but not too many of them."""
        self.waiting.append((numbers, gradient))
        if sum(rows.numel() for _, rows in self.waiting) > self.settings.max_waiting:
            self.add_waiting()

    def add_waiting(self) -> None:
        """Add what waits to the gradient of the table."""
        if self.waiting:
            numbers, rows = zip(*self.waiting, strict=True)
            tokens, gradients = flat(numbers, 0), flat(rows, 1)
            count = self.weight[..., 0].numel()
            if count <= len(tokens):
                add_gradient(self.weight, sum_by_number(gradients, tokens, count) * self.scale)
            else:
                if self.weight.grad is None:
                    self.weight.grad = torch.zeros_like(self.weight)
                add_rows(self.weight.grad.view(count, -1), gradients * self.scale, tokens)
        self.waiting = []

    def deliver(self) -> None:
        """Add to the gradients of the table, and of what else is among the classes."""
        gradients = [output.table_gradients() for output in self.outputs]
        words = zip(*(slices[0] for slices in gradients), strict=True)
        for parameter, parts in zip((self.weight, self.bias), words, strict=True):
            add_gradient(parameter, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        for output, slices in zip(self.outputs, gradients, strict=True):
            for part, (to_weight, to_bias) in zip(output.slices[1:], slices[1:], strict=True):
                add_gradient(part.weight, to_weight)
                add_gradient(part.bias, to_bias)
        self.add_waiting()


def token_table(
    cutoffs: tuple[int, ...], parameters: Mapping[str, Tensor], settings: EngineSettings, dtype: torch.dtype
) -> TokenTable:
    """The table of an embedding and its output layers, one for each cluster of an adaptive softmax."""
    name = "embedding.words" if cutoffs else "embedding"
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    borders = (0, *cutoffs, weight.shape[-2])
    slices = [[TableSlice(weight, bias, start, stop)] for start, stop in pairwise(borders)]
    if cutoffs:
        clusters = (parameters["embedding.clusters.weight"], parameters["embedding.clusters.bias"])
        slices[0].append(TableSlice(*clusters, 0, len(cutoffs)))
    # clusters have more rows than there are hidden states to score: there the gain multiplies those
    gain = None if cutoffs else parameters.get("embedding.gain")
    outputs = [OutputLayer(parts, settings, gain) for parts in slices]
    return TokenTable(weight, bias, outputs, settings, dtype)


class Lookup(torch.autograd.Function):
    """Rows of a table, whose gradient waits until the update ends."""

    @staticmethod
    def forward(weight: Tensor, tokens: Tensor, table: TokenTable) -> Tensor:
        return table.look_up(row_numbers(weight, tokens))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, TokenTable], output: Tensor) -> None:
        weight, tokens, ctx.table = inputs
        ctx.save_for_backward(row_numbers(weight, tokens))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        (numbers,) = ctx.saved_tensors
        ctx.table.wait(numbers, gradient)
        return None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int, int, None], weight: Tensor, tokens: Tensor, table: TokenTable
    ) -> tuple[Tensor, int]:
        """All seeds at once."""
        return Lookup.apply(weight.movedim(in_dims[0], 0), tokens.movedim(in_dims[1], 0), table), 0


def row_numbers(weight: Tensor, tokens: Tensor) -> Tensor:
    """Tokens as rows of all seeds' tables in a row."""
    if weight.dim() == 2:
        return tokens
    first = torch.arange(len(weight), device=tokens.device) * weight.shape[1]
    return tokens + first.view(-1, *(1,) * (tokens.dim() - 1))


def flat(parts: Sequence[Tensor], kept: int) -> Tensor:
    """Parts in a row, all but their last `kept` dimensions flat; those of one shape are copied once."""
    if len({part.shape for part in parts}) == 1:
        return laid(parts, dim=0).flatten(0, -1 - kept)
    return laid([part.flatten(0, -1 - kept) for part in parts], dim=0)


def add_rows(total: Tensor, rows: Tensor, numbers: Tensor) -> None:
    """total[number] += row, for rows (N, D) of a table that has more of them.

    Rows of one number are summed up first, so that sums have the same order every time. Behind the last
    group, sums of nothing go to row 0.
    """
    numbers, order = numbers.sort(stable=True)
    groups = F.pad((numbers[1:] != numbers[:-1]).cumsum(0), (1, 0))
    sums = sum_by_number(rows[order], groups, len(rows))
    total.index_add_(0, torch.zeros_like(numbers).scatter_(0, groups, numbers), sums.to(total.dtype))


def sum_by_number(rows: Tensor, numbers: Tensor, count: int) -> Tensor:
    """Rows (N, D) added up by their numbers, (count, D): a product where many have the same."""
    exact = sum_format(rows.dtype)
    if rows.is_cuda and count * len(rows) <= MAX_CHOICE_ELEMENTS:
        chosen = numbers[:, None] == torch.arange(padded(count), device=numbers.device)
        total = rows.new_empty(1, padded(count), rows.shape[1], dtype=exact)
        add_product(total, chosen[None].to(rows.dtype), rows[None], False)
        return total[0, :count]
    summed: Tensor = torch.ops.aten.embedding_dense_backward(rows.to(exact), numbers, count, -1, False)
    return summed
