"""Trained models use memory as the paper says: what was written is what is read, in order or reversed."""

import contextlib
import io

import pytest
import yaml

from rmt.analysis.capture import capture_mean
from rmt.analysis.operations import DIAGONAL, best, composition, diagonal, findings, normalised
from rmt.analysis.probes import decode, effects, memories
from rmt.cli.front import names_of
from rmt.cli.main import main
from rmt.config import to_dict
from rmt.evaluate.evaluate import evaluate
from rmt.train.config import RunConfig
from tests.analysis.stored import AFTER_COPY, FOLDER, MODELS, arguments, stored

RECURRENT = [name for name in MODELS if "transformer" not in name]
CLEAR = 0.7  # share of the attention on one diagonal in a model that uses memory in order
CHANCE = 0.1
EXAMPLES = 64


def seen(name: str):
    """The attention of a stored model, averaged over test examples."""
    model, task, length, _ = stored(name)
    return capture_mean(model, task.split("test", EXAMPLES).tokens, length)


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_is_what_its_command_trains(name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main([*arguments(name), "--recipe", "modern-1", "--print_config"]) == 0
    settings = yaml.safe_load(printed.getvalue())
    assert settings["precision"] == "auto"  # 32-true where it was trained
    asked = {name: settings[name] for name in names_of(RunConfig)} | {"precision": "32-true"}
    assert asked == to_dict(stored(name).config) | {"recipe": "modern-1"}  # once it was called modern


def test_stored_models_are_small():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 600_000
    assert {file.stem for file in FOLDER.iterdir()} == {*MODELS, AFTER_COPY}


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_solves_its_task(name):
    model, task, length, _ = stored(name)
    assert evaluate(model, task, length, samples=200, thorough=False)["accuracy"] > 0.98


def test_copy_writes_in_order_and_reads_in_order_from_identical_slots():
    segments = seen("copy-identical")
    found = findings(segments)
    writing, reading = best(found, "write", segment=0), best(found, "read", segment=1)
    assert (writing.order, reading.order) == ("straight", "straight")
    assert writing.straight > CLEAR
    assert reading.straight > CLEAR
    assert writing.mass > CLEAR


def test_reverse_turns_around_between_writing_and_reading():
    found = findings(seen("reverse-identical"))
    writing, reading = best(found, "write", segment=0), best(found, "read", segment=1)
    assert (writing.order, reading.order) == ("straight", "reversed")


@pytest.mark.parametrize("name", RECURRENT)
def test_the_composition_of_reading_and_writing_is_the_task(name):
    segments = seen(name)
    whole = composition(segments[0], segments[1])
    task, other = (whole.straight, whole.reversed)[:: 1 if name.startswith("copy") else -1]
    assert task > CLEAR
    assert other < 0.4


def test_distinct_slots_come_permuted_so_that_only_the_composition_has_an_order():
    segments = seen("reverse-distinct")
    whole = composition(segments[0], segments[1])
    writing = segments[0].block("write", "tokens")[whole.writer]
    reading = segments[1].block("tokens", "read")[whole.reader]
    for block in (normalised(writing), normalised(reading)):
        assert max(float(diagonal(block)), float(diagonal(block.flip(-1)))) < DIAGONAL
    assert whole.reversed > CLEAR


@pytest.mark.parametrize("name", RECURRENT)
def test_answers_are_read_from_the_read_block(name):
    segments = seen(name)
    reader = composition(segments[0], segments[1]).reader
    assert float(segments[1].block("tokens", "read")[reader].sum(-1).mean()) > CLEAR


def test_transformer_xl_reads_its_cache_in_order():
    found = best(findings(seen("copy-transformer-xl")), "cache", segment=1)
    assert found.order == "straight"
    assert found.mass > DIAGONAL


@pytest.mark.parametrize("name", RECURRENT)
def test_shuffling_memory_destroys_the_answer_and_swapping_it_swaps_the_answers(name):
    model, task, length, _ = stored(name)
    found = effects(model, task.split("test", 200), length, before=1)
    assert found["untouched"].input > 0.98
    assert found["shuffled"].input < 0.5
    assert found["ablated"].input < CHANCE + 0.05
    assert found["swapped"].previous_input > 0.98
    assert found["swapped"].input < CHANCE + 0.05


@pytest.mark.parametrize("name", RECURRENT)
def test_every_source_symbol_can_be_decoded_from_memory_while_it_is_needed(name):
    model, task, length, _ = stored(name)
    tokens = task.split("test", 1000).tokens
    decoded = decode(memories(model, tokens, length), tokens[:, :length])
    needed = 2 if name.startswith("copy") else 1  # copy answers twice
    assert decoded.whole[:needed].min() > 0.9
    assert decoded.chance < 0.15
