"""Reverse can also turn around when it writes, as in the paper: after copy, whose way of reading it keeps."""

import runpy

import pytest
import torch

from rmt.analysis.capture import capture_mean
from rmt.analysis.operations import best, composition, findings
from rmt.analysis.probes import effects
from rmt.config import to_dict
from rmt.core.model import SegmentModel
from rmt.evaluate.evaluate import evaluate
from tests.analysis.stored import AFTER_COPY, AFTER_COPY_SEED, EXAMPLE, stored

CLEAR = 0.7  # share of the attention on one diagonal


@pytest.fixture(scope="module")
def segments():
    model, task, length, _ = stored(AFTER_COPY)
    return capture_mean(model, task.split("test", 64).tokens, length)


def test_the_stored_model_has_the_settings_of_the_example():
    example, config = runpy.run_path(str(EXAMPLE)), stored(AFTER_COPY).config
    wanted = example["settings"]("reverse", example["SHARED_RATE"], AFTER_COPY_SEED)
    assert wanted.precision == "auto"  # 32-true where it was trained
    unversioned = "modern"  # as recipes were called when it was trained
    assert {**to_dict(wanted), "precision": "32-true", "recipe": unversioned} == to_dict(config)
    assert config.model.memory.init == "identical"


def test_it_has_solved_the_task():
    model, task, length, _ = stored(AFTER_COPY)
    assert evaluate(model, task, length, samples=1000)["accuracy"] >= 0.99


def test_it_writes_backwards_and_reads_in_order(segments):
    found = findings(segments)
    writing, reading = best(found, "write", segment=0), best(found, "read", segment=1)
    assert (writing.order, reading.order) == ("reversed", "straight")
    assert writing.reversed > CLEAR
    assert writing.mass > CLEAR
    assert reading.straight > CLEAR


def test_reading_what_was_written_is_reversed(segments):
    whole = composition(segments[0], segments[1])
    assert whole.reversed > CLEAR
    assert whole.straight < 0.4


def test_its_answers_come_through_memory():
    model, task, length, _ = stored(AFTER_COPY)
    found = effects(model, task.split("test", 200), length, before=1)
    assert found["untouched"].input > 0.98
    assert found["shuffled"].input < 0.5
    assert found["swapped"].previous_input > 0.98


def test_only_the_initial_memory_has_a_rate_of_its_own():
    example = runpy.run_path(str(EXAMPLE))
    config = example["settings"]("reverse", example["SHARED_RATE"], 0)
    start = SegmentModel(config.model)
    before = {name: one.clone() for name, one in start.state_dict().items()}
    trainer = example["FastMemory"](config, start)
    list(trainer.updates())
    moved = {
        name: float((one - before[name]).abs().max()) for name, one in trainer.model.state_dict().items()
    }
    first = 1 / config.rate.warmup  # of the rates, in the first step
    torch.testing.assert_close(
        moved["memory.tokens.weight"], example["MEMORY_RATE"] * first, rtol=0.01, atol=0.0
    )
    assert (
        max(moved[name] for name in moved if name != "memory.tokens.weight")
        < 2 * example["SHARED_RATE"] * first
    )
