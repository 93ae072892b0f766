"""Gradients of weight matrices: sums of products over all segments of an update, made when it suits the GPU.

The gradient of a matrix that multiplied rows is leftᵀ right: the gradients of what came out, times the rows
that went in. A product of few rows takes longer to start than to make. So such factors wait, from the second
update on side by side in a buffer, and are multiplied at once when the update ends.
"""

# G seeds · N rows that a matrix multiplied; a matrix has `rows` and `columns` of its own

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor

MAX_WAITING_ELEMENTS = 2**27  # of both factors, for each kind of matrix: 256 MB of bfloat16
MAX_JOINED_ELEMENTS = 2**22  # of both factors of one product; one of more fills an H200 by itself
# a product of few columns and many rows is made in parts, so that every processor has a tile to sum up
FULL_TILES, TILE = 264, 64  # two for each of an H200's 132 processors; rows and columns of a tile
MIN_PART_ROWS = 2048  # summed up by one of them; fewer take longer to add than to sum


class Slot:
    """The handle of one product: its right factor is written in the forward pass, its left one later."""

    def __init__(self, number: int, right: Tensor, left: Tensor | None, order: int):
        self.number = number  # of the matrix
        self.right = right  # (G, N, columns)
        self.order = order  # among all slots of an update: sums are made in it, whatever backward did
        self.buffered_left = left  # (G, N, rows) in the buffer, if the right one lies there

    def left(self, width: int) -> Tensor:
        """Where the left factor (G, N, width) is to be written."""
        if self.buffered_left is not None:
            return self.buffered_left
        return self.right.new_empty(*self.right.shape[:2], width)


class WeightGradients:
    """The gradients of matrices of one kind over an update: `begin`, `slot` and `add` …, `finish`."""

    def __init__(self, like: Tensor, dtype: torch.dtype, max_waiting: int = MAX_WAITING_ELEMENTS):
        """`like` the matrices (count, G, rows, columns); sums are in `dtype`."""
        self.like, self.max_waiting = like, max_waiting
        self.totals = torch.zeros_like(like, dtype=dtype, memory_format=torch.contiguous_format)
        self.buffers: tuple[Tensor, ...] = ()  # of left and of right factors: (count, N, rows or columns)
        self.outgrown: list[tuple[Tensor, ...]] = []  # smaller ones, which recordings still write to
        self.is_wanted = False  # whether any slot was asked for, so that a buffer is worth its memory
        self.in_parts: dict[int, Tensor] = {}  # sums by the number of their parts: (count, G, parts, …)
        self.begin()

    def begin(self) -> None:
        """Begin an update with gradients of zero."""
        count = len(self.totals)
        self.unwritten = set(range(count))  # totals that hold what an earlier update left
        self.taken = [0] * count  # rows of the buffers
        self.slots = 0  # given so far
        self.begun: set[tuple[int, int]] = set()  # numbers of parts, and matrices that have sums in them
        self.clear_waiting()

    def clear_waiting(self) -> None:
        """Nothing waits."""
        self.waiting: list[list[tuple[Slot, Tensor]]] = [[] for _ in self.totals]  # with their left factors
        self.waiting_elements = 0

    def slot(self, number: int, rows: int) -> Slot:
        """A slot for rows that matrix `number` is going to multiply; the next update writes there again."""
        self.is_wanted, start = True, self.taken[number]
        self.slots += 1
        if not self.buffers or start + rows > self.buffers[1].shape[1]:
            right = self.like.new_empty(self.totals.shape[1], rows, self.totals.shape[3])
            return Slot(number, right, None, self.slots)
        self.taken[number] += rows
        # `.data` has a version counter of its own: the buffer is written to again and again
        left, right = (side.data[number, None, start : start + rows] for side in self.buffers)
        return Slot(number, right, left, self.slots)

    def slot_of(self, number: int, right: Tensor) -> Slot:
        """A slot for rows (G, N, columns) that lie elsewhere already."""
        self.slots += 1
        return Slot(number, right, None, self.slots)

    def add(self, slot: Slot, left: Tensor) -> None:
        """Add leftᵀ right; `left` (G, N, rows) lies where the slot said, or elsewhere."""
        size = left.numel() + slot.right.numel()
        if size > min(MAX_JOINED_ELEMENTS, self.max_waiting):
            self.add_at_once(slot, left)
            return
        if self.waiting_elements + size > self.max_waiting:
            self.multiply_waiting()
        self.waiting[slot.number].append((slot, left))
        self.waiting_elements += size

    def add_at_once(self, slot: Slot, left: Tensor) -> None:
        """Add a product that fills the GPU by itself; its parts are added up when the update ends."""
        number, right, total = slot.number, slot.right, self.totals[slot.number]
        parts = parts_of(total, left, right)
        if parts == 1:
            add_product(total, left, right, self.take_totals([number]))
            return
        if parts not in self.in_parts:
            shape = (*self.totals.shape[:2], parts, *total.shape[1:])
            self.in_parts[parts] = self.totals.new_empty(shape)
        adds = (parts, number) in self.begun
        self.begun.add((parts, number))
        multiply_parts(self.in_parts[parts][number].flatten(0, 1), left, right, adds)

    def add_parts(self) -> None:
        """Add what was summed up in parts to the totals."""
        for parts, sums in sorted(self.in_parts.items()):
            for run in consecutive(sorted(number for count, number in self.begun if count == parts)):
                span = slice(run[0], run[-1] + 1)
                add_sum(self.totals[span], sums[span], 2, self.take_totals(run))
        self.begun.clear()

    def finish(self) -> Tensor:
        """Multiply what waits: all gradients of this update, (count, G, rows, columns)."""
        self.add_parts()
        rows = self.multiply_waiting()
        for number in self.unwritten:
            self.totals[number].zero_()
        self.unwritten = set()
        self.grow_buffers(rows)
        return self.totals

    def multiply_waiting(self) -> int:
        """Multiply all factors that wait, matrices with as many rows together; returns the most rows."""
        alike: dict[int, list[int]] = {}
        for number, pairs in enumerate(self.waiting):
            alike.setdefault(sum(left.shape[1] for _, left in pairs), []).append(number)
        for rows, numbers in alike.items():
            for group in consecutive(numbers) if len(self.totals[0]) == 1 else [numbers]:
                if rows:
                    self.multiply(group, rows)
        self.clear_waiting()
        return max(alike, default=0)

    def multiply(self, numbers: list[int], rows: int) -> None:
        """Add the products that wait for some matrices, `rows` rows for each of them."""
        adds = self.take_totals(numbers)
        span = slice(numbers[0], numbers[-1] + 1)
        pairs = [sorted(self.waiting[number], key=lambda pair: pair[0].order) for number in numbers]
        if self.fills_buffers(pairs, numbers, rows):
            left, right = (side[span, :rows] for side in self.buffers)
            add_product(self.totals[span, 0], left, right, adds)
            return
        flat = [pair for waiting in pairs for pair in waiting]
        left = torch.cat([left for _, left in flat], dim=1).unflatten(1, (len(numbers), -1))
        right = torch.cat([slot.right for slot, _ in flat], dim=1).unflatten(1, (len(numbers), -1))
        if len(left) == 1:
            add_product(self.totals[span, 0], left[0], right[0], adds)
            return
        products = self.totals.new_empty(left.shape[0] * len(numbers), *self.totals.shape[2:])
        add_product(products, left.flatten(0, 1), right.flatten(0, 1), False)
        products = products.unflatten(0, left.shape[:2]).transpose(0, 1)
        first = 0
        for run in consecutive(numbers):
            total, product = self.totals[run[0] : run[-1] + 1], products[first : first + len(run)]
            total.add_(product) if adds else total.copy_(product)
            first += len(run)

    def fills_buffers(self, pairs: list[list[tuple[Slot, Tensor]]], numbers: list[int], rows: int) -> bool:
        """Whether the first `rows` rows of the buffers are exactly what waits for these matrices."""
        whole = all(self.taken[number] == rows for number in numbers)
        return whole and all(left is slot.buffered_left for waiting in pairs for slot, left in waiting)

    def take_totals(self, numbers: list[int]) -> bool:
        """Whether to add to these totals, or to write over what an earlier update left in all of them."""
        unwritten = self.unwritten.intersection(numbers)
        self.unwritten -= unwritten
        if len(unwritten) == len(numbers):
            return False
        for number in unwritten:
            self.totals[number].zero_()
        return True

    def grow_buffers(self, rows: int) -> None:
        """Let as many factors of one seed wait side by side in the next update, if there is memory for it."""
        count, groups, *widths = self.totals.shape
        room = self.buffers[1].shape[1] if self.buffers else 0
        too_large = count * rows * sum(widths) > self.max_waiting
        if not self.is_wanted or groups > 1 or rows <= room or too_large or is_recording(self.totals):
            return
        self.outgrown += [self.buffers] if self.buffers else []
        self.buffers = tuple(self.like.new_empty(count, rows, width) for width in widths)


def sum_format(dtype: torch.dtype) -> torch.dtype:
    """The number format of sums of many rows."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def add_product(total: Tensor, left: Tensor, right: Tensor, adds: bool) -> None:
    """total += leftᵀ right, or = unless it `adds`; (G, rows, columns), summed in its number format."""
    parts = parts_of(total, left, right)
    if parts > 1:
        products = total.new_empty(len(total) * parts, *total.shape[1:])
        multiply_parts(products, left, right, False)
        add_sum(total, products.unflatten(0, (-1, parts)), 1, adds)
    else:
        multiply_parts(total, left, right, adds)


def multiply_parts(products: Tensor, left: Tensor, right: Tensor, adds: bool) -> None:
    """Products (G · parts, rows, columns) of factors (G, N, …) that are cut into parts of their rows."""
    left, right = (side.reshape(len(products), -1, side.shape[-1]) for side in (left, right))
    if left.dtype == products.dtype or not products.is_cuda:
        products.baddbmm_(left.mT.to(products.dtype), right.to(products.dtype), beta=float(adds))
    elif len(products) == 1:
        factors = (products[0], left[0].mT, right[0], products.dtype)
        torch.ops.aten.addmm.dtype_out(*factors, beta=float(adds), out=products[0])
    else:
        factors = (products, left.mT, right, products.dtype)
        torch.ops.aten.baddbmm.dtype_out(*factors, beta=float(adds), out=products)


def add_sum(total: Tensor, parts: Tensor, dim: int, adds: bool) -> None:
    """total += the sum of parts along a dimension, or = unless it `adds`."""
    total.add_(parts.sum(dim)) if adds else torch.sum(parts, dim, out=total)


def parts_of(total: Tensor, left: Tensor, right: Tensor) -> int:
    """How many products of as many rows each are to be summed up: a power of two, one where rows are few."""
    count, rows, columns = total.shape
    tiles, parts = count * ceil(rows / TILE) * ceil(columns / TILE), 1
    most = min(FULL_TILES // tiles, left.shape[1] // MIN_PART_ROWS)
    while 2 * parts <= most and left.shape[1] % (2 * parts) == 0:
        parts *= 2
    return parts if left.is_contiguous() and right.is_contiguous() else 1


def consecutive(numbers: list[int]) -> list[list[int]]:
    """Rising numbers, cut where one is missing."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def is_recording(x: Tensor) -> bool:
    """Whether work is being recorded now: what is allocated meanwhile belongs to the recording."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
