"""A warm-up below 1 is a share of the steps, else it is a number of steps."""

import pytest

from rmt.errors import ConfigError
from rmt.train.config import RateConfig
from rmt.train.optim import Rate
from rmt.train.warmup import warmup_steps


@pytest.mark.parametrize(
    ("warmup", "steps", "expected"),
    [(0.0, 100, 0), (0.1, 100, 10), (0.5, 3, 2), (1.0, 100, 1), (100.0, 50, 100)],
)
def test_the_steps_of_a_warmup(warmup, steps, expected):
    assert warmup_steps(warmup, steps) == expected


def test_a_share_is_the_rate_of_as_many_steps():
    share, count = (Rate(RateConfig(schedule="cosine", warmup=warmup), 40) for warmup in (0.25, 10))
    assert [share.factor(step) for step in range(40)] == [count.factor(step) for step in range(40)]


def test_neither_a_share_nor_a_number_of_steps_is_a_mistake():
    with pytest.raises(ConfigError, match=r"^rate\.warmup=2\.5 must be a whole number of steps, or a share"):
        RateConfig(warmup=2.5)
