"""How many sequences are evaluated at once: many short ones, few long ones, always one."""

from dataclasses import dataclass, replace

import pytest

from rmt.core.config import MemoryConfig, ModelConfig
from rmt.core.model import SegmentModel
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


def model_with(memory: int) -> SegmentModel:
    """Four heads, and as small as can be otherwise."""
    sizes = {"layers": 1, "heads": 4, "head_width": 2, "width": 4, "inner_width": 4}
    return SegmentModel(ModelConfig(vocabulary=10, **sizes, memory=MemoryConfig(size=memory)))


def test_short_sequences_are_evaluated_as_ever():
    rows = [rows_at_once(Copy(length=24), model_with(8), 8, on_gpu) for on_gpu in (True, False)]
    assert rows == [2500, 500]


def test_the_logits_of_long_sequences_fit():
    task = replace(Copy(length=24), length=1 << 14)
    rows = rows_at_once(task, model_with(0), 8, True)
    assert 1 <= rows < 2500
    assert 4 * rows * task.total_length * task.vocabulary <= 1 << 31


@pytest.mark.parametrize(
    ("on_gpu", "length", "room"),
    [(True, 120, 1 << 29), (False, 480, 1 << 27), (False, 40, 1 << 23)],
    ids=["GPU", "CPU", "cache-of-a-CPU"],
)
def test_the_attention_scores_of_long_segments_fit(on_gpu: bool, length: int, room: int):
    rows = rows_at_once(Copy(length=3 * length), model_with(length // 2), length, on_gpu)
    bytes_of_a_row = 4 * 4 * (2 * length) ** 2  # of four heads
    assert rows * bytes_of_a_row <= room < (rows + 1) * bytes_of_a_row


def test_a_cpu_evaluates_few_rows_only_where_more_do_not_fit():
    assert rows_at_once(Copy(length=360), model_with(60), 120, False) == 32


def test_one_sequence_is_always_evaluated():
    assert rows_at_once(Long(), model_with(0), 1, False) == 1
