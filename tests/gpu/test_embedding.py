"""Rows of a table that were looked up, added to its gradient."""

import pytest
import torch

from rmt.gpu.embedding import add_rows
from tests.gpu.cases import DEVICE, DOUBLE

NUMBERS = {
    "repeated": [7, 0, 7, 3, 7, 0],
    "all-alike": [4, 4, 4],
    "of-the-first-row": [0, 0],
    "one": [8],
    "different": [5, 1, 0, 8],
}


@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_rows_are_added_where_they_were_looked_up(numbers: list[int]) -> None:
    torch.manual_seed(0)
    total, rows = torch.randn(9, 3, dtype=DOUBLE), torch.randn(len(numbers), 3, dtype=DOUBLE)
    expected = total.clone()
    for number, row in zip(numbers, rows, strict=True):
        expected[number] += row
    total = total.to(DEVICE)
    add_rows(total, rows.to(DEVICE), torch.tensor(numbers, device=DEVICE))
    torch.testing.assert_close(total.cpu(), expected, rtol=1e-12, atol=1e-12)
