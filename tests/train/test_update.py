"""One update: everything it starts from is given to it, for one model and for many that are stacked."""

from pathlib import Path
from typing import Any

import pytest

from rmt.train.update import WindowBatch
from tests.covering import quick
from tests.train.runs import trainer_of
from tests.train.seeds import assert_as_alone
from tests.train.texts import MODELS, text, write_corpus

LATEST = {"schedule": "sliding", "depth": 2, "replay_from": "latest"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("accumulate", quick({"whole": 1, "accumulated": 3}, "whole"))
def test_seeds_that_replay_from_the_newest_memory_are_those_of_each_alone(data, accumulate):
    config = text(
        data,
        precision="64-true",
        model=MODELS["transformer_xl_rmt"],
        bptt=LATEST,
        train={"accumulate": accumulate},
    )
    assert_as_alone(config, batches=8)


@pytest.mark.parametrize(
    ("bptt", "expected"),
    [
        pytest.param({"schedule": "sliding", "depth": 2}, [1, 1, 1, 1], id="stored"),
        pytest.param(LATEST, [1, 2, 3, 3], id="latest"),
        pytest.param({"schedule": "chunked", "depth": 2}, [1, 1, 1, 1], id="chunked"),
    ],
)
def test_the_states_of_all_replayed_segments_are_given_where_replay_makes_use_of_them(data, bptt, expected):
    trainer = trainer_of(text(data, model=MODELS["transformer_xl_rmt"], bptt=bptt))
    batches = batches_of(trainer)
    for _ in expected:
        list(trainer.updates())
    state = trainer.updater.form.flat()
    given = [len(batch.tensors[5:]) / len(state) for batch in batches]  # behind numbers, columns, resets
    assert given == expected


def test_an_update_knows_how_many_were_made_before_it(data):
    trainer = trainer_of(text(data, bptt={"schedule": "sliding", "depth": 1}))
    batches = batches_of(trainer)
    for _ in range(3):
        list(trainer.updates())
    assert [batch.step for batch in batches] == [0, 1, 2]


def batches_of(trainer: Any) -> list[WindowBatch]:
    """Fills with what the updates of a trainer learn from."""
    batches: list[WindowBatch] = []
    update = trainer.updater.update
    trainer.updater.update = lambda batch: batches.append(batch) or update(batch)
    return batches
