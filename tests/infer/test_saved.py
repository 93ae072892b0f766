"""A session on disk: damage, other models and half-written files are noticed."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import rmt
from rmt import Session
from rmt.errors import CheckpointError
from rmt.evaluate.perplexity import with_cache
from rmt.infer.saved import fingerprint
from tests.laws.models import LENGTH, build, configuration


def saved(folder: Path, model: rmt.SegmentModel) -> Path:
    session = Session(model, segment_length=LENGTH)
    session.feed([1] * (2 * LENGTH + 1))
    session.save(folder / "state")
    return folder / "state"


@pytest.mark.parametrize("place", [0, 3, 40, 0.5, 0.9, -1], ids=str)
def test_a_changed_byte_anywhere_is_noticed(tmp_path, place):
    model = build(configuration("transformer_xl_rmt"))
    path = saved(tmp_path, model)
    content = bytearray(path.read_bytes())
    content[int(place * len(content)) if isinstance(place, float) else place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged|not a session"):
        Session.load(path, model)


@pytest.mark.parametrize("size", [0, 5, 100, -3])
def test_a_file_cut_short_is_noticed(tmp_path, size):
    model = build(configuration("rmt"))
    path = saved(tmp_path, model)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match=r"state' is damaged: it cannot be read"):
        Session.load(path, model)


def test_another_model_is_refused(tmp_path):
    path = saved(tmp_path, build(configuration("rmt")))
    for other in (build(configuration("rmt"), seed=1), build(configuration("rmt", norm="post"))):
        with pytest.raises(CheckpointError, match=r"is of another model.*load the model it was saved with"):
            Session.load(path, other)


def test_one_changed_weight_is_another_model_and_the_same_weights_are_the_same():
    model, twin = (build(configuration("rmt")) for _ in range(2))
    assert fingerprint(model) == fingerprint(twin)
    with torch.no_grad():
        model.embedding.bias[3] += 1e-12
    assert fingerprint(model) != fingerprint(twin)
    with torch.no_grad():
        model.embedding.bias.copy_(twin.embedding.bias)
    assert fingerprint(model) == fingerprint(twin)


def test_a_weight_that_was_written_to_behind_torchs_back_is_another():
    model = build(configuration("rmt"))
    first = fingerprint(model)
    model.memory.tokens.weight.data.add_(5)
    assert fingerprint(model) != first


def test_a_model_made_without_gradients_has_a_fingerprint_too():
    with torch.inference_mode():
        made = build(configuration("rmt"))
    assert fingerprint(made) == fingerprint(build(configuration("rmt")))


def test_other_settings_with_the_same_weights_are_another_model():
    model = build(configuration("rmt"))
    first = fingerprint(model)
    assert fingerprint(with_cache(model, 8)) != first


def test_a_file_of_something_else_is_refused(tmp_path):
    save_file({"memory": torch.zeros(1)}, tmp_path / "state")
    with pytest.raises(CheckpointError, match="is not a session"):
        Session.load(tmp_path / "state", build(configuration("rmt")))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"nowhere' does not exist"):
        Session.load(tmp_path / "nowhere", build(configuration("rmt")))


def test_a_save_that_fails_leaves_the_old_session(tmp_path, monkeypatch):
    model = build(configuration("rmt"))
    path = saved(tmp_path, model)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    session = Session.load(path, model)
    session.feed([3])
    with pytest.raises(CheckpointError, match=r"cannot be written \(No space left on device\)"):
        session.save(path)
    assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    session = Session(build(configuration("rmt")), segment_length=LENGTH)
    with pytest.raises(CheckpointError, match=r"nowhere/state' cannot be written"):
        session.save(tmp_path / "nowhere" / "state")


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62])
def test_a_size_that_the_file_does_not_hold_is_refused(tmp_path, size):
    model = build(configuration("rmt"))
    path = saved(tmp_path, model)
    path.write_bytes(size.to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(CheckpointError, match=r"state' is damaged: it cannot be read"):
        Session.load(path, model)
