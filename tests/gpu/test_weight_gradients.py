"""Gradients of matrices are the sums of all products, wherever their factors waited."""

# G matrices that are multiplied at once · N rows

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from rmt.gpu import weight_gradients
from rmt.gpu.weight_gradients import (
    Slot,
    WeightGradients,
    add_product,
    consecutive,
    parts_of,
    sum_format,
)

DOUBLE = torch.float64
COUNT, ROWS, COLUMNS = 3, 2, 4


def sums_of(groups: int = 1, max_waiting: int = 10**6, count: int = COUNT) -> WeightGradients:
    return WeightGradients(torch.empty(count, groups, ROWS, COLUMNS, dtype=DOUBLE), DOUBLE, max_waiting)


class Update:
    """Factors that are drawn at random, and the sum of their products as it is by definition."""

    def __init__(self, gradients: WeightGradients, seed: int = 3):
        self.gradients, self.generator = gradients, torch.Generator().manual_seed(seed)
        self.slots: list[Slot] = []
        self.expected = torch.zeros_like(gradients.totals)

    def forward(self, number: int, rows: int, elsewhere: bool = False) -> None:
        """A matrix multiplies rows."""
        if elsewhere:
            slot = self.gradients.slot_of(number, self.draw(self.gradients.totals.shape[1], rows, COLUMNS))
        else:
            slot = self.gradients.slot(number, rows)
            slot.right.copy_(self.draw(*slot.right.shape))
        self.slots.append(slot)

    def backward(self, left_out: Sequence[int] = ()) -> Tensor:
        """Gradients come in the other order, perhaps not those of all; returns the sums."""
        for index, slot in reversed(list(enumerate(self.slots))):
            if index in left_out:
                continue
            left = slot.left(ROWS)
            left.copy_(self.draw(*left.shape))
            self.expected[slot.number] += left.mT @ slot.right
            self.gradients.add(slot, left)
        return self.gradients.finish()

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=DOUBLE)


def assert_sums(update: Update, left_out: Sequence[int] = ()) -> None:
    torch.testing.assert_close(update.backward(left_out), update.expected, rtol=1e-12, atol=1e-12)


def watch_buffers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Fills with whether factors were multiplied where they lie side by side."""
    real, filled = WeightGradients.fills_buffers, []

    def fills_buffers(self: WeightGradients, *what: object) -> bool:
        filled.append(real(self, *what))
        return filled[-1]

    monkeypatch.setattr(WeightGradients, "fills_buffers", fills_buffers)
    return filled


@pytest.mark.parametrize("left_out", [(), (5,)], ids=["all", "one-unused"])
def test_factors_that_are_written_side_by_side_are_those_that_wait(left_out, monkeypatch):
    """Three updates, the last of them larger: factors wait apart, side by side, and some of both."""
    filled, gradients = watch_buffers(monkeypatch), sums_of()
    for sizes in ([5, 3], [5, 3], [5, 3, 4]):
        gradients.begin()
        update = Update(gradients)
        for size in sizes:
            for number in range(COUNT):
                update.forward(number, size)
        assert_sums(update, left_out)
    assert gradients.buffers[0].shape == (COUNT, 12, ROWS)
    assert [buffers[0].shape[1] for buffers in gradients.outgrown] == [8]
    assert filled.count(True) == 1  # in the second update, for all that were not left out


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("max_waiting", [0, 20, 60, 10**6])
def test_sums_are_those_of_all_products_whatever_may_wait(max_waiting, groups):
    gradients = sums_of(groups, max_waiting)
    for _ in range(3):
        gradients.begin()
        update = Update(gradients)
        for number, rows in ((0, 2), (1, 2), (0, 3), (2, 5), (0, 1)):
            update.forward(number, rows, elsewhere=rows == 3)
        assert_sums(update)


def test_no_more_elements_wait_than_may():
    gradients = sums_of(max_waiting=60)
    update = Update(gradients)
    for _ in range(6):
        update.forward(0, 4)
    for slot in update.slots:
        gradients.add(slot, slot.left(ROWS).zero_())
        assert 0 < gradients.waiting_elements <= 60


def test_a_matrix_that_multiplied_nothing_has_a_gradient_of_zero():
    gradients = sums_of()
    for number in (0, 1):
        gradients.begin()
        update = Update(gradients)
        update.forward(number, 3)
        assert_sums(update)


def test_sums_can_be_asked_for_again_and_added_to():
    gradients = sums_of()
    first, second = Update(gradients, seed=3), Update(gradients, seed=4)
    first.forward(1, 3)
    first.backward()
    torch.testing.assert_close(gradients.finish(), first.expected, rtol=1e-12, atol=1e-12)
    second.forward(1, 2)
    sums = second.backward()
    torch.testing.assert_close(sums, first.expected + second.expected, rtol=1e-12, atol=1e-12)


def test_a_sum_does_not_depend_on_where_its_factors_waited():
    """Bit by bit, for resumed runs begin with factors that wait apart."""
    generator = torch.Generator().manual_seed(4)
    factors = [torch.randn(2, 1, 40, 32, generator=generator, dtype=torch.float32) for _ in range(6)]
    gradients = WeightGradients(torch.empty(1, 1, 32, 32, dtype=torch.float32), torch.float32, 10**9)
    results = []
    for _ in range(2):
        gradients.begin()
        slots = [gradients.slot(0, 40) for _ in factors]
        for slot, (_, right) in zip(slots, factors, strict=True):
            slot.right.copy_(right)
        for slot, (left, _) in reversed(list(zip(slots, factors, strict=True))):
            gradients.add(slot, slot.left(32).copy_(left))
        results.append(gradients.finish().clone())
    assert all(slot.buffered_left is not None for slot in slots)
    assert torch.equal(*results)


def test_what_waits_is_not_written_over_after_a_sum():
    gradients = WeightGradients(torch.empty(1, 1, 1, 1, dtype=DOUBLE), DOUBLE, 100)
    large = gradients.slot(0, 4)
    gradients.add(large, large.left(1))
    gradients.finish()  # from now on, four rows can wait side by side
    gradients.begin()
    first, second = gradients.slot(0, 2), gradients.slot(0, 2)
    first.right.fill_(1.0)
    second.right.fill_(3.0)
    gradients.add(first, first.left(1).fill_(1.0))
    gradients.finish()
    gradients.add(second, second.left(1).fill_(1.0))
    for _ in range(2):
        gradients.slot(0, 2).right.fill_(7.0)
    assert gradients.finish().item() == 8.0


def test_buffers_are_not_made_where_nobody_asks_for_a_slot():
    gradients = sums_of()
    update = Update(gradients)
    update.forward(0, 5, elsewhere=True)
    assert_sums(update)
    assert gradients.buffers == ()


def test_runs_of_numbers():
    assert consecutive([0, 1, 2, 4, 7, 8]) == [[0, 1, 2], [4], [7, 8]]
    assert consecutive([]) == []


@pytest.mark.parametrize(("dtype", "exact"), [(torch.bfloat16, torch.float32), (DOUBLE, DOUBLE)])
def test_sums_are_in_full_precision(dtype, exact):
    assert sum_format(dtype) == exact


@pytest.mark.parametrize("adds", [False, True], ids=["alone", "added"])
@pytest.mark.parametrize(("rows", "parts"), [(8192, 4), (2048, 1), (4098, 2)], ids=["four", "few", "odd"])
def test_a_product_of_many_rows_is_the_sum_of_its_parts(rows, parts, adds):
    generator = torch.Generator().manual_seed(4)
    left, right, total = (
        torch.randn(shape, generator=generator, dtype=DOUBLE)
        for shape in ((2, rows, ROWS), (2, rows, COLUMNS), (2, ROWS, COLUMNS))
    )
    assert parts_of(total, left, right) == parts
    expected = left.mT @ right + adds * total
    add_product(total, left, right, adds)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_parts_of_many_products_are_added_up_once(groups, monkeypatch):
    """Products of 8, 4 and 3 rows, made at once in four parts, in two and whole; two rows wait."""
    monkeypatch.setattr("rmt.gpu.weight_gradients.MAX_JOINED_ELEMENTS", groups * 2 * (ROWS + COLUMNS))
    monkeypatch.setattr("rmt.gpu.weight_gradients.MIN_PART_ROWS", 2)
    sums = []
    monkeypatch.setattr(weight_gradients, "add_sum", counted(weight_gradients.add_sum, sums))
    gradients = sums_of(groups)
    for _ in range(2):
        sums.clear()
        gradients.begin()
        update = Update(gradients)
        for number, rows in ((0, 8), (1, 8), (0, 8), (1, 4), (2, 8), (0, 2), (2, 3), (2, 8)):
            update.forward(number, rows, elsewhere=True)
        assert_sums(update)
        assert set(gradients.in_parts) == {2, 4}
        assert len(sums) == 2  # of the four parts of all matrices, and of the two of one
    torch.testing.assert_close(gradients.finish(), update.expected, rtol=1e-12, atol=1e-12)
    again = Update(gradients, seed=4)
    again.forward(1, 8, elsewhere=True)
    torch.testing.assert_close(again.backward(), update.expected + again.expected, rtol=1e-12, atol=1e-12)


def counted(function: Callable[..., None], calls: list[object]) -> Callable[..., None]:
    """A function that leaves its arguments in `calls`."""

    def call(*arguments: object) -> None:
        calls.append(arguments)
        function(*arguments)

    return call


def test_factors_that_lie_among_others_are_multiplied_as_they_are():
    left, right = torch.ones(2, 9000, ROWS)[:, :8192], torch.ones(2, 9000, COLUMNS)[:, :8192]
    assert parts_of(torch.empty(2, ROWS, COLUMNS), left, right) == 1
