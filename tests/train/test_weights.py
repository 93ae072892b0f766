"""Weights fit the configuration they are loaded into, or one line says which does not."""

from dataclasses import replace

import pytest
import torch

import rmt
from rmt.core.config import CacheConfig
from rmt.errors import CheckpointError
from rmt.experiments.run import train
from rmt.train.checkpoint import Snapshot
from rmt.train.weights import model_checksum, require_fit
from tests.train.runs import Watcher, config_text, run, tiny

CONFIG = tiny().model


def weights() -> dict[str, torch.Tensor]:
    return rmt.SegmentModel(CONFIG).state_dict()


def saved(tensors: dict[str, torch.Tensor], **trainer: str) -> Snapshot:
    return Snapshot(tensors, {}, {}, trainer)


def test_weights_fit_their_own_configuration():
    require_fit(CONFIG, saved(weights()), "config.yaml")


@pytest.mark.parametrize(
    "other",
    [{"width": 16}, {"layers": 2}, {"layers": 4096}, {"vocabulary": 10**12}, {"memory": {"size": 3}}],
    ids=str,
)
def test_other_settings_are_one_line_and_nothing_is_allocated(other):
    with pytest.raises(
        CheckpointError, match=r"fit .*checkpoint.*; put back the settings.*config\.yaml"
    ) as no:
        require_fit(tiny(model=other).model, saved(weights()), "config.yaml")
    assert "\n" not in str(no.value)


def test_a_weight_too_many_is_refused():
    with pytest.raises(CheckpointError, match=r"extra has the shape \(2,\), with these settings none"):
        require_fit(CONFIG, saved({**weights(), "extra": torch.ones(2)}), "config.yaml")


def test_names_of_release_17fc2a8_are_known():
    former = {name.replace("tokens.weight", "tokens"): tensor for name, tensor in weights().items()}
    assert former.keys() != weights().keys()
    require_fit(CONFIG, saved(former), "config.yaml")


def test_settings_that_change_no_shape_are_refused_too_unless_they_matter_in_training_only():
    checkpoint = saved(weights(), model=model_checksum(CONFIG))
    require_fit(CONFIG, checkpoint, "config.yaml")
    require_fit(replace(CONFIG, dropout=0.5), checkpoint, "config.yaml")
    with pytest.raises(CheckpointError, match=r"of another model than the checkpoint; put .*: config\.yaml"):
        require_fit(replace(CONFIG, cache=CacheConfig(size=3)), checkpoint, "config.yaml")


def test_a_run_whose_width_was_changed_is_one_line(tmp_path):
    run(tiny(), tmp_path)
    (tmp_path / "config.yaml").write_text(config_text(tiny(model={"width": 16})))  # a format without checksum
    with pytest.raises(CheckpointError, match=r"fit the checkpoint: .*config\.yaml"):
        rmt.load(tmp_path)
    (tmp_path / "result.json").unlink()
    with pytest.raises(CheckpointError, match=r"fit the checkpoint: .*--restart"):
        train(tiny(model={"width": 16}), tmp_path, Watcher())
