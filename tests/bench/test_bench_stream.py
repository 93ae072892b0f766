"""Sessions as rows: whole segments of all rows, and what they compute."""

import pytest
import torch

from rmt.bench import measure, stream
from rmt.bench.stream import StreamSize, stream_rows

CPU = torch.device("cpu")
TINY = {"layers": 1, "heads": 1, "head_width": 4, "width": 8, "inner_width": 8}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    monkeypatch.setitem(stream.SIZES, "cpu", StreamSize(6, TINY))


def test_a_step_is_one_segment_of_all_rows():
    single, many = stream_rows(CPU, 5)
    assert [(row.configuration, row.way) for row in (single, many)] == [
        ("stream", "1 row"),
        ("stream", "32 rows"),
    ]
    assert (single.tokens, many.tokens) == (6, 32 * 6)
    assert many.flops == 32 * single.flops
    assert single.speed == single.tokens / single.step.median


def test_only_whole_segments_are_fed(monkeypatch):
    sessions = []
    built = stream.open_session
    monkeypatch.setattr(stream, "open_session", lambda *args: sessions.append(built(*args)) or sessions[-1])
    list(stream_rows(CPU, 5))
    assert [session.batch for session in sessions] == [1, 32]
    for session in sessions:
        assert bool((session.seen % 6 == 0).all())
        assert int(session.seen[0]) >= (stream.WARM_UP + measure.BLOCKS) * stream.FED_AT_ONCE * 6


def test_on_a_gpu_the_sizes_are_those_that_goals_are_set_for():
    length, sizes = stream.SIZES["cuda"]
    assert (length, sizes["layers"], sizes["width"]) == (512, 12, 512)
