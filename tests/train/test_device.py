"""Where a run computes and in which number format: decided once, kept on resume, said in a line."""

import pytest
import torch

from rmt.train.device import decided, device_name, precision_to_train
from tests.gpus import MULTIPLIES, NO_GPU, pretend
from tests.train.runs import run, tiny, trainer_of

FORMATS = ("32-true", "bf16-mixed", "64-true")


@pytest.mark.parametrize("card", MULTIPLIES)
@pytest.mark.parametrize("stored", FORMATS)
def test_a_run_that_goes_on_keeps_what_it_has_stored_on_any_device(monkeypatch, card, stored):
    pretend(monkeypatch, card)
    assert precision_to_train("auto", stored, "auto") == stored
    assert precision_to_train(stored, stored, "auto") == stored
    assert precision_to_train("64-true", stored, "auto") == "64-true"


def test_a_new_run_is_trained_as_its_device_likes_it(monkeypatch):
    pretend(monkeypatch, NO_GPU)
    assert precision_to_train("auto", "auto", "auto") == "32-true"
    pretend(monkeypatch, "NVIDIA H200")
    assert precision_to_train("auto", "auto", "auto") == "bf16-mixed"
    assert precision_to_train("auto", "auto", "cpu") == "32-true"


def test_a_configuration_is_decided_once(monkeypatch):
    first = decided(tiny())
    assert (tiny().precision, first.precision) == ("auto", "32-true")
    pretend(monkeypatch, "NVIDIA H200")
    assert decided(first) is first
    assert decided(tiny(device="auto")).precision == "bf16-mixed"


def test_on_a_cpu_auto_trains_to_the_bits_of_float32():
    trainers = [trainer_of(tiny(**settings)) for settings in ({}, {"precision": "32-true"})]
    for trainer in trainers:
        list(trainer.updates())
    assert trainers[0].config == trainers[1].config
    for auto, single in zip(*(trainer.model.parameters() for trainer in trainers), strict=True):
        assert torch.equal(auto, single)


@pytest.mark.parametrize("precision", FORMATS)
def test_a_line_says_in_what_and_on_what_a_run_computes(tmp_path, precision):
    _, watcher = run(tiny(precision=precision), tmp_path)
    assert watcher.messages == [f"{precision} on the CPU"]


def test_devices_have_names(monkeypatch):
    assert device_name("cpu") == device_name(torch.device("cpu")) == "the CPU"
    pretend(monkeypatch, "NVIDIA H200")
    assert device_name(torch.device("cuda", 0)) == "NVIDIA H200"
