"""Wrapped models beside plain ones: the same tokens in every way, and a table of what was measured."""

import json

import pytest
import torch

from rmt.bench.compare import comparisons as row_ratios
from rmt.bench.wrapped import (
    COLUMNS,
    WORKLOADS,
    Comparison,
    StepTime,
    Workload,
    batch,
    bert,
    compare,
    comparisons,
    hardware,
    plain_model,
    positions,
    random_tokens,
    table_lines,
    wrapped_model,
    wrapped_rows,
)
from rmt.errors import ConfigError

pytest.importorskip("transformers")
CPU = torch.device("cpu")
TINY_BERT = bert(1, 24, documents=2, length=8)
TINY_GPT2 = Workload(
    "GPT2LMHeadModel", "GPT2Config", {"n_positions": 64, "n_layer": 1, "n_embd": 24}, 2, 4, 8, True
)
MEASURED = Comparison(
    "minilm",
    32_768,
    StepTime(20.0, 19.0, 21.0),
    StepTime(50.0, 49.0, 51.0),
    StepTime(30.0, 29.0, 31.0),
    2**30,
)


@pytest.mark.parametrize("workload", [TINY_BERT, TINY_GPT2, TINY_BERT._replace(ragged=True)])
def test_every_way_makes_steps_of_the_same_tokens(workload):
    comparison = compare("tiny", workload, CPU, steps=1)
    assert comparison.tokens == 2 * 4 * 8
    assert min(comparison.at_once.low, comparison.in_turn.low, comparison.wrapped.low) > 0


def test_a_wrapped_model_is_a_row_beside_its_plain_ones(monkeypatch):
    monkeypatch.setattr("rmt.bench.wrapped.WORKLOADS", {"tiny": TINY_BERT})
    rows = list(wrapped_rows(CPU, steps=1))
    assert [row.configuration for row in rows] == ["tiny-at-once", "tiny-in-turn", "tiny-memory"]
    assert [comparison.beside for comparison in row_ratios(rows)] == ["tiny-at-once", "tiny-in-turn"]
    assert all(row.tokens == 2 * 4 * 8 and row.step.low > 0 for row in rows)


def test_a_segment_has_memory_and_special_tokens_beside_its_text():
    assert positions(wrapped_model(TINY_BERT)) == 8 + 10 + 3
    assert positions(wrapped_model(TINY_GPT2)) == 8 + 2 * 10


def test_ragged_rows_end_one_after_the_other():
    workload = TINY_BERT._replace(ragged=True)
    mask = batch(workload, random_tokens(3, 10, CPU))["attention_mask"]
    assert mask.sum(1).tolist() == [8, 9, 10]


def test_a_table_has_times_spread_and_ratios():
    header, _, row = table_lines([MEASURED])
    assert header.count("|") == len(COLUMNS) + 1
    times = ["20.0 (19.0 to 21.0)", "50.0 (49.0 to 51.0)", "30.0 (29.0 to 31.0)"]
    assert row == f"| {' | '.join(['minilm', *times, '1.50', '0.60', '1,092', '1.00'])} |"


def test_numbers_can_be_written_down():
    record = json.loads(json.dumps(MEASURED.record()))
    assert record["wrapped"] == {"median": 30.0, "low": 29.0, "high": 31.0}
    assert record["slower_than_at_once"] == 1.5


def test_transformers_that_are_too_old_are_refused(monkeypatch):
    monkeypatch.setattr("transformers.__version__", "4.57.1")
    for use in (lambda: hardware(CPU), lambda: plain_model(TINY_BERT)):
        with pytest.raises(ConfigError, match=r"transformers 4\.57\.1 is too old: pip install"):
            use()


def test_an_unknown_workload_is_named_with_those_there_are():
    with pytest.raises(ConfigError, match=rf"'bertt' is unknown; choose from: {', '.join(WORKLOADS)}"):
        next(comparisons(["bertt"], CPU, 1))
