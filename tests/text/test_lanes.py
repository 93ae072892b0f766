"""A split becomes contiguous lanes of tokens."""

import json
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt.errors import ConfigError
from rmt.nn.adaptive import targets_fit_slots
from rmt.text.corpora import find_source
from rmt.text.lanes import Lanes
from rmt.text.prepare import prepare_corpus


@given(tokens=st.integers(2, 200), batch=st.integers(1, 8), length=st.integers(1, 40))
def test_segments_cover_every_lane_once_and_targets_are_one_ahead(tokens, batch, length):
    if tokens < 2 * batch:
        return
    lanes = Lanes(np.arange(tokens), batch)
    segments = [lanes.segment(index, length) for index in range(lanes.segments(length))]
    read = np.concatenate([segment.tokens for segment in segments], axis=1)
    targets = np.concatenate([segment.targets for segment in segments], axis=1)
    whole = np.concatenate([read, targets[:, -1:]], axis=1)
    assert whole.ravel().tolist() == list(range(tokens - tokens % batch))
    assert (targets == read + 1).all()
    assert targets.size == lanes.predicted
    assert {segment.tokens.shape for segment in segments[:-1]} <= {(batch, length)}


@given(starts=st.sets(st.integers(0, 59), max_size=10), batch=st.integers(1, 5), length=st.integers(1, 20))
def test_a_lane_starts_a_document_where_a_token_of_it_does(starts, batch, length):
    documents = sorted({0, *starts})
    lanes = Lanes(np.arange(60), batch, documents)
    for index in range(lanes.segments(length)):
        tokens = lanes.segment(index, length).tokens
        assert (lanes.documents(index, length) == np.isin(tokens, documents).any(axis=1)).all()


@given(
    tokens=st.lists(st.integers(0, 9), min_size=8, max_size=200),
    batch=st.integers(1, 4),
    length=st.integers(1, 40),
    piece=st.integers(1, 50),
)
def test_capacities_are_the_most_targets_of_a_cluster_over_all_segments(tokens, batch, length, piece):
    lanes, cutoffs = Lanes(np.array(tokens, dtype="<u2"), batch), (2, 5, 9)
    segments = [lanes.segment(index, length).targets for index in range(lanes.segments(length))]
    with mock.patch("rmt.text.lanes.PIECE", piece):
        capacities = lanes.capacities(length, cutoffs)
    assert all(targets_fit_slots(torch.from_numpy(targets), cutoffs, capacities) for targets in segments)
    for capacity, start, stop in zip(capacities, cutoffs, (5, 9, 10), strict=True):
        most = max(((targets >= start) & (targets < stop)).sum() for targets in segments)
        assert capacity == min(batch * length, next(slots for slots in range(0, 201, 8) if slots >= most))


def test_capacities_of_a_mapped_split_are_those_of_its_tokens(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 60, 3000).astype("<u4")
    tokens.tofile(tmp_path / "tokens")
    mapped = np.memmap(tmp_path / "tokens", dtype="<u4", mode="r")
    capacities = Lanes(mapped, 3).capacities(50, (10, 55))
    assert capacities == Lanes(tokens, 3).capacities(50, (10, 55))
    assert 0 < capacities[1] < capacities[0] < 150


def test_segments_are_ready_for_torch():
    tokens, targets = Lanes(np.arange(10, dtype="<u2"), 2).segment(0, 4)
    assert torch.from_numpy(tokens).tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]]
    assert torch.from_numpy(targets).dtype == torch.int64


def test_a_prepared_split_is_mapped_and_not_loaded(tmp_path):
    (tmp_path / "a.txt").write_bytes(bytes(range(65, 85)) * 10)
    prepare_corpus(find_source(str(tmp_path / "a.txt")), tmp_path / "out")
    lanes = Lanes.open(tmp_path / "out", "train", 4)
    assert isinstance(lanes.tokens.base, np.memmap)
    assert lanes.tokens[0, :5].tolist() == [65, 66, 67, 68, 69]
    assert lanes.documents(0, 5).tolist() == [True, False, False, False]
    with pytest.raises(ConfigError, match="unknown split 'tset'; did you mean 'test'"):
        Lanes.open(tmp_path / "out", "tset", 4)
    assert json.loads((tmp_path / "out" / "corpus.json").read_text())["splits"]["train"]["tokens"] == 180


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Lanes(np.arange(9), 0), "batch=0 must be at least 1"),
        (lambda: Lanes(np.arange(9), 5), "batch=5 needs at least 10 tokens, not 9; use fewer lanes"),
        (lambda: Lanes(np.arange(9), 2).segment(0, 0), "segment_length=0 must be at least 1"),
        (lambda: Lanes(np.arange(9), 2).segment(2, 2), "segment=2 does not exist; choose 0 to 1"),
        (lambda: Lanes(np.arange(9), 2).documents(-1, 2), "segment=-1 does not exist; choose 0 to 1"),
    ],
    ids=["no-lane", "too-many", "no-length", "too-far", "negative"],
)
def test_lanes_that_cannot_be_are_an_error(use, message):
    with pytest.raises(ConfigError, match=message):
        use()
