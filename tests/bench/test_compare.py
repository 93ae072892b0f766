"""One configuration beside another: time over time, and over what is computed."""

import pytest

from rmt.bench.compare import comparisons
from rmt.bench.measure import Row, Spread


def row(name: str, way: str, seconds: float, flops: float = 0, segments: float = 0, beside: str = "") -> Row:
    return Row(
        name,
        way,
        Spread(seconds, seconds, seconds),
        flops=flops,
        segments=segments,
        beside=(beside,) if beside else (),
    )


def test_a_row_is_compared_with_the_same_way_of_the_other_configuration():
    rows = [
        row("rmt", "eager", 8.0, 100, 3),
        row("rmt", "fast", 2.0, 100, 3),
        row("xl", "fast", 3.0, 120, 3, beside="rmt"),
        row("xl", "evaluation", 1.0, 40, 1, beside="rmt"),
    ]
    (pair,) = comparisons(rows)
    assert pair[:3] == ("xl", "fast", "rmt")
    assert (pair.time, pair.operations, pair.segments) == pytest.approx((1.5, 1.2, 1.0))
    assert pair.time_per_operation == pytest.approx(1.25)
    assert pair.time_per_segment == pytest.approx(1.5)


def test_segments_that_are_replayed_count_again():
    rows = [row("chunked", "fast", 3.0, 9, 3), row("sliding", "fast", 4.0, 12, 4, beside="chunked")]
    (pair,) = comparisons(rows)
    assert pair.time_per_segment == pair.time_per_operation == pytest.approx(1.0)


def test_where_no_operations_were_counted_time_alone_is_compared():
    (pair,) = comparisons([row("plain", "training", 2.0), row("wrapped", "training", 3.0, beside="plain")])
    assert (pair.time, pair.time_per_operation, pair.time_per_segment) == (1.5, 1.5, 1.5)


def test_a_row_may_be_compared_with_several():
    rows = [row("at-once", "training", 1.0), row("in-turn", "training", 2.0), row("memory", "training", 3.0)]
    pairs = comparisons([*rows[:2], rows[2]._replace(beside=("at-once", "in-turn", "never-measured"))])
    assert [(pair.beside, pair.time) for pair in pairs] == [("at-once", 3.0), ("in-turn", 1.5)]
