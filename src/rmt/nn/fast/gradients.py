"""Gradients of matrices: sums of products, made when it suits the GPU."""

# G matrices that are multiplied at once · N rows

from __future__ import annotations

import torch
from torch import Tensor

MANY = 2**22  # numbers in two factors that are multiplied at once


class Gradients:
    """Gradients of matrices (count, G, rows, columns), which are sums of products leftᵀ right.

    A product of few rows takes longer to begin than to make: such factors wait, and are multiplied at once;
    but no more than `most` numbers wait. Whoever makes factors may write them where they wait: side by side.
    """

    def __init__(self, like: Tensor, dtype: torch.dtype, most: int):
        self.most, self.like = most, like
        self.totals = torch.zeros_like(like, dtype=dtype, memory_format=torch.contiguous_format)
        self.new = set(range(len(self.totals)))  # those that are still to be written
        self.sides: tuple[Tensor, ...] = ()  # where left and right factors wait: (count, N, rows or columns)
        self.earlier: list[tuple[Tensor, ...]] = []  # smaller ones, which recordings may write to
        self.asked = False  # whether anyone wants to write there
        self.taken = [0] * len(self.totals)  # rows of the sides
        self.order: dict[int, int] = {}  # of right factors
        self.clear()

    def clear(self) -> None:
        self.waiting: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self.totals]
        self.count = 0  # numbers that wait

    def forget(self) -> None:
        """Begin with zero, which is what nothing is added to."""
        self.new = set(range(len(self.totals)))
        self.taken, self.order = [0] * len(self.totals), {}
        self.clear()

    def room(self, number: int, rows: int) -> Tensor:
        """A place for a right factor (G, N, columns); the next update writes to it again."""
        self.asked, start = True, self.taken[number]
        if not self.sides or start + rows > self.sides[1].shape[1]:
            place = self.like.new_empty(self.totals.shape[1], rows, self.totals.shape[3])
        else:
            self.taken[number] += rows
            place = self.sides[1].data[number, None, start : start + rows]  # counts its own changes
        self.order[place.data_ptr()] = len(self.order)
        return place

    def beside(self, number: int, right: Tensor) -> Tensor:
        """A place for the left factor (G, N, rows) that belongs to a right one."""
        groups, rows, columns = right.shape
        if not self.sides or right.untyped_storage().data_ptr() != self.sides[1].untyped_storage().data_ptr():
            return right.new_empty(groups, rows, self.totals.shape[2])
        start = right.storage_offset() // columns - number * self.sides[1].shape[1]
        return self.sides[0][number, None, start : start + rows]

    def add(self, number: int, left: Tensor, right: Tensor) -> None:
        """Add leftᵀ right to one of them; (G, N, rows) and (G, N, columns)."""
        size = left.numel() + right.numel()
        if size > min(MANY, self.most):
            add_product(self.totals[number], left, right, self.begun([number]))
            return
        if self.count + size > self.most:
            self.sums()
        self.waiting[number].append((left, right))
        self.count += size

    def sums(self) -> Tensor:
        """All of them, with what has waited."""
        alike: dict[int, list[int]] = {}  # matrices by their number of rows
        for number, pairs in enumerate(self.waiting):
            alike.setdefault(sum(left.shape[1] for left, _ in pairs), []).append(number)
        for rows, numbers in alike.items():
            for group in rows_of_neighbours(numbers) if len(self.totals[0]) == 1 else [numbers]:
                if rows:
                    self.multiply(group, rows)
        for number in self.new:
            self.totals[number].zero_()
        self.make_sides(max(alike, default=0))
        self.new = set()
        self.clear()
        return self.totals

    def begun(self, numbers: list[int]) -> bool:
        """Whether to add to these: else none of them was written yet, and what they are does not count."""
        new = self.new.intersection(numbers)
        self.new -= new
        if len(new) == len(numbers):
            return False
        for number in new:
            self.totals[number].zero_()
        return True

    def multiply(self, numbers: list[int], rows: int) -> None:
        """Add the products that wait for matrices which have as many rows to come."""
        these, adds = slice(numbers[0], numbers[-1] + 1), self.begun(numbers)
        pairs = [pair for number in numbers for pair in self.in_order(self.waiting[number])]
        if all(self.taken[number] == rows for number in numbers) and self.hold(pairs):
            add_product(self.totals[these, 0], *(side[these, :rows] for side in self.sides), adds)
            return
        sides = zip(*pairs, strict=True)
        left, right = (torch.cat(side, dim=1).unflatten(1, (len(numbers), -1)) for side in sides)
        if len(left) == 1:
            add_product(self.totals[these, 0], left[0], right[0], adds)
            return
        found = self.totals.new_empty(left.shape[0] * len(numbers), *self.totals.shape[2:])
        add_product(found, left.flatten(0, 1), right.flatten(0, 1), False)
        found = found.unflatten(0, left.shape[:2])
        put = torch._foreach_add_ if adds else torch._foreach_copy_
        put([self.totals[number] for number in numbers], list(found.unbind(1)))

    def in_order(self, pairs: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """As they lie side by side: a sum has the same order, wherever they wait."""
        return sorted(pairs, key=lambda pair: self.order.get(pair[1].data_ptr(), 0))

    def hold(self, pairs: list[tuple[Tensor, Tensor]]) -> bool:
        """Whether all of these factors were written side by side."""
        places = [side.untyped_storage().data_ptr() for side in self.sides]
        return all([one.untyped_storage().data_ptr() for one in pair] == places for pair in pairs)

    def make_sides(self, rows: int) -> None:
        """Let factors of the next update wait side by side, if there is one seed and they are not many."""
        count, groups, *widths = self.totals.shape
        known = self.sides[0].shape[1] if self.sides else 0
        many = count * rows * sum(widths) > self.most
        if not self.asked or groups > 1 or rows <= known or many or recording(self.totals):
            return
        self.earlier += [self.sides] if self.sides else []
        self.sides = tuple(self.like.new_empty(count, rows, width) for width in widths)


def exact(dtype: torch.dtype) -> torch.dtype:
    """The number format of sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def add_product(total: Tensor, left: Tensor, right: Tensor, adds: bool) -> None:
    """total += leftᵀ right, or = where it `adds` not; (S, rows, columns), exact to its number format."""
    if left.dtype == total.dtype or not total.is_cuda:
        total.baddbmm_(left.mT.to(total.dtype), right.to(total.dtype), beta=float(adds))
    elif len(total) == 1:
        given = (total[0], left[0].mT, right[0], total.dtype)
        torch.ops.aten.addmm.dtype_out(*given, beta=float(adds), out=total[0])
    else:
        torch.ops.aten.baddbmm.dtype_out(total, left.mT, right, total.dtype, beta=float(adds), out=total)


def rows_of_neighbours(numbers: list[int]) -> list[list[int]]:
    """Rising numbers, cut where one is missing."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] + 1 == number:
            found[-1].append(number)
        else:
            found.append([number])
    return found


def recording(x: Tensor) -> bool:
    """Whether what is done now is recorded: what is made meanwhile belongs to the recording."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
