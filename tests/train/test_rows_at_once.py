"""How many sequences are evaluated at once: many short ones, few long ones, always one."""

from dataclasses import dataclass, replace

from rmt.tasks.copy import Copy
from rmt.train.measure import rows_at_once
from tests.train.runs import Echo


@dataclass(frozen=True, kw_only=True)
class Long(Echo):
    """Logits of one sequence fill a GiB."""

    @property
    def total_length(self) -> int:
        return 1 << 18

    @property
    def vocabulary(self) -> int:
        return 1 << 10


def test_short_sequences_are_evaluated_as_ever():
    assert (rows_at_once(Copy(length=24), True), rows_at_once(Copy(length=24), False)) == (2500, 500)


def test_the_logits_of_long_sequences_fit():
    task = replace(Copy(length=24), length=1 << 14)
    rows = rows_at_once(task, True)
    assert 1 <= rows < 2500
    assert 4 * rows * task.total_length * task.vocabulary <= 1 << 31


def test_one_sequence_is_always_evaluated():
    assert rows_at_once(Long(), False) == 1
