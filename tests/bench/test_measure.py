"""What a row says, on made times; nothing here depends on how fast the machine is."""

import itertools
from dataclasses import replace

import pytest
import torch

from rmt.bench import measure
from rmt.bench.flops import work
from rmt.bench.measure import BLOCKS, Row, Spread, alone, block_times, peak_memory, spread
from rmt.bench.text import made_text
from rmt.errors import ConfigError
from rmt.experiments.recipe import resolve
from rmt.train.config import build_task

CPU = torch.device("cpu")
ROW = Row("name", "eager", Spread(0.5, 0.4, 0.8), tokens=100, flops=1e9, product=8e9, peak=2**30)


def test_a_spread_is_the_median_and_the_ends():
    assert spread([0.3, 0.1, 0.9, 0.2, 0.4]) == (0.3, 0.1, 0.9)


def test_rates_are_those_of_the_median_step():
    assert (ROW.speed, ROW.rate, ROW.utilisation) == (200, 2e9, 0.25)
    assert ROW._replace(product=0).utilisation == 0


@pytest.mark.parametrize(
    ("steps", "per_call", "calls"), [(10, 1, 10), (1, 1, 5), (12, 1, 15), (10, 2, 5), (10, 3, 5)]
)
def test_blocks_have_equally_many_calls_and_time_is_per_step(monkeypatch, steps, per_call, calls):
    clock = itertools.count(0.0, 6.0)
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(clock))
    made = []

    def work() -> int:
        made.append(1)
        return per_call

    times = block_times(work, steps, CPU)
    assert len(made) == calls
    assert times == [6.0 / (per_call * calls / BLOCKS)] * BLOCKS


def test_peak_memory_starts_anew_for_each_model():
    if peak_memory(CPU) is None:
        pytest.skip("resident memory is not told here")
    with alone("large"):
        torch.ones(64 * 2**20)
        large = peak_memory(CPU)
    with alone("small"):
        small = peak_memory(CPU)
    assert large - small > 200 * 2**20


def test_a_model_that_does_not_fit_is_one_clear_line():
    with pytest.raises(ConfigError, match=r"enwik8 does not fit .* use a smaller --batch"), alone("enwik8"):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_what_a_trainer_sets_for_the_whole_process_ends_with_it():
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with alone("one"):
        torch.set_num_threads(before[0] + 1)
        torch.set_float32_matmul_precision("medium")
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before


def test_text_is_trained_on_and_read(tmp_path, monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    given = {"name": "text", "data": made_text(20, tmp_path, 2000), "segment_length": 6}
    config = resolve({"task": given, "train": {"batch": 4}, "device": "cpu"})
    trained, read = measure.bench("mine", config, build_task(config.task), ["off"], 5)
    assert [(row.configuration, row.way) for row in (trained, read)] == [
        ("mine", "eager"),
        ("mine", "evaluation"),
    ]
    assert (trained.tokens, read.tokens) == (4 * 3 * 6, 4 * 6)
    assert trained.kernels is read.kernels is None
    assert trained.flops == pytest.approx(9 * read.flops)  # three segments, forward and backward
    assert (trained.segments, read.segments) == (3, 1)


def test_a_step_is_one_of_the_updates_of_a_batch(monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    bptt = {"depth": 1, "schedule": "chunked"}
    config = resolve({"task": {"name": "copy", "length": 4, "segments": 4}, "bptt": bptt, "device": "cpu"})
    task = build_task(config.task)
    row, asked = measure.training("mine", replace(config, compile="off"), task, 1), work(config, task)
    assert asked.updates == 2
    assert (row.tokens, row.flops) == (asked.tokens / 2, asked.flops / 2)
    assert row.segments == asked.segments / 2 == 2


def test_an_evaluation_of_a_short_text_counts_real_tokens(tmp_path, monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    given = {"name": "text", "data": made_text(20, tmp_path, 400), "segment_length": 6}
    config = resolve({"task": given, "train": {"batch": 4}, "device": "cpu"})
    row = measure.evaluation("mine", config, build_task(config.task), 500)
    lane = 400 * 10 // 12 // 4 - 1  # tokens to predict
    assert row.tokens * -(-lane // 6) == pytest.approx(4 * lane)


def test_an_evaluation_is_measured_in_the_number_format_that_its_row_says(tmp_path, monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    formats, plain = set(), measure.perplexity

    def spying(model, *rest):
        formats.update(parameter.dtype for parameter in model.parameters())
        return plain(model, *rest)

    monkeypatch.setattr(measure, "perplexity", spying)
    settings = {"name": "text", "data": made_text(20, tmp_path, 400), "segment_length": 6}
    config = resolve({"task": settings, "train": {"batch": 4}, "device": "cpu", "precision": "64-true"})
    measure.evaluation("mine", config, build_task(config.task), 500)
    assert formats == {torch.float64}


def test_many_seeds_at_once_are_a_row_with_the_work_of_all(monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    bptt = {"depth": 1, "schedule": "chunked"}
    task = {"name": "copy", "length": 4, "segments": 4}
    config = resolve({"task": task, "bptt": bptt, "train": {"batch": 4}, "device": "cpu"})
    task = build_task(config.task)
    row, asked = measure.together("mine", replace(config, compile="off"), task, 1, 3), work(config, task)
    assert row.way == "3 seeds"
    assert (row.tokens, row.flops) == (3 * asked.tokens / 2, 3 * asked.flops / 2)
    assert row.segments == 3 * asked.segments / 2
