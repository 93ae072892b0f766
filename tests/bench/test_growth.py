"""Growth over segments: the line, and what is kept for each of them."""

import pytest

from rmt.bench import growth as subject
from rmt.bench.growth import Point, border_bytes, curves, fit, growth
from rmt.bench.measure import Spread
from rmt.bench.text import made_text
from rmt.errors import ConfigError
from rmt.experiments.recipe import resolve
from rmt.train.config import build_task

STEP = Spread(1.0, 1.0, 1.0)


def test_a_straight_line_is_found_and_a_bend_is_told():
    assert fit([1, 2, 4, 8], [5.0, 7.0, 11.0, 19.0]) == pytest.approx((3.0, 2.0, 0.0), abs=1e-9)
    assert fit([1, 2, 4, 8], [1.0, 4.0, 16.0, 64.0]).error > 0.3


def test_points_fall_into_curves():
    made = [(1, False), (1, True), (2, False)]
    points = [Point(segments, "eager", recomputed, STEP, 1) for segments, recomputed in made]
    assert {key: [one.segments for one in curve] for key, curve in curves(points).items()} == {
        ("eager", False): [1, 2],
        ("eager", True): [1],
    }


@pytest.mark.parametrize("model", ["rmt", "transformer_xl_rmt"])
def test_the_state_at_a_border_is_memory_and_cache(tmp_path, model):
    task = {"name": "text", "data": made_text(20, tmp_path, 400), "segment_length": 6}
    config = resolve({"task": task, "preset": model, "train": {"batch": 4}})
    rows = 10 + (2 * 6 if model == "transformer_xl_rmt" else 0)  # memory, two layers' cache
    assert border_bytes(config) == 4 * rows * 64 * 4


def test_every_number_of_segments_is_one_update_with_all_of_them(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(subject, "update_times", lambda trainer, steps: seen.append(trainer) or [0.1])
    task = {"name": "text", "data": made_text(20, tmp_path, 2000), "segment_length": 6}
    config = resolve({"task": task, "train": {"batch": 4}, "device": "cpu"})
    points = list(growth("mine", config, build_task(config.task), [1, 3], ["off"], 1))
    assert [(one.segments, one.recomputed) for one in points] == [
        (1, False),
        (3, False),
        (1, True),
        (3, True),
    ]
    for trainer, one in zip(seen, points, strict=True):
        before = trainer.tokens
        assert len(list(trainer.updates())) == 1
        assert trainer.tokens - before == 4 * 6 * one.segments
        assert trainer.config.bptt.checkpoint is one.recomputed


def test_sequences_are_refused():
    config = resolve({"task": {"name": "copy"}, "device": "cpu"})
    with pytest.raises(ConfigError, match="growth needs segments of one length, which copy does not have"):
        list(growth("copy", config, build_task(config.task), [1], ["off"], 1))
