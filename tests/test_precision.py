"""Number formats: auto is what a device is good at, and what was trained in where it can be."""

import pytest
import torch

from rmt.errors import ConfigError, RMTError
from rmt.precision import NAMES, precision_for, precision_of, products, weight_format
from rmt.train.device import device_of
from tests.gpus import pretend

FORMATS = NAMES[1:]


def test_auto_is_bfloat16_on_a_gpu_that_multiplies_in_it_and_float32_elsewhere(monkeypatch):
    assert precision_of("auto", "cpu") == "32-true"
    pretend(monkeypatch, "NVIDIA H200")
    assert (device_of("auto"), precision_of("auto", "cuda")) == ("cuda", "bf16-mixed")
    assert precision_of("auto", "cpu") == "32-true"
    pretend(monkeypatch, "Tesla T4")
    assert precision_of("auto", "cuda") == "32-true"


@pytest.mark.parametrize("asked", FORMATS)
def test_what_is_asked_for_is_what_is_computed_in(monkeypatch, asked):
    assert precision_of(asked, "cpu") == precision_of(asked, "cpu", "64-true") == asked
    pretend(monkeypatch, "NVIDIA H200")
    assert precision_of(asked, "cuda") == precision_of(asked, "cuda", "32-true") == asked


def test_bfloat16_on_a_gpu_without_it_is_refused(monkeypatch):
    pretend(monkeypatch, "Tesla T4")
    line = "precision=bf16-mixed: Tesla T4 does not multiply in bfloat16; use 32-true or auto"
    with pytest.raises(ConfigError) as caught:
        precision_of("bf16-mixed", "cuda")
    assert str(caught.value) == line
    assert precision_of("bf16-mixed", "cpu") == "bf16-mixed"


def test_a_run_is_used_in_the_format_of_its_training_where_the_device_has_it(monkeypatch):
    assert [precision_of("auto", "cpu", trained) for trained in FORMATS] == ["32-true", "32-true", "64-true"]
    pretend(monkeypatch, "NVIDIA H200")
    assert [precision_of("auto", "cuda", trained) for trained in FORMATS] == list(FORMATS)
    assert precision_of("auto", "cpu", "bf16-mixed") == "32-true"
    pretend(monkeypatch, "Tesla T4")
    assert [precision_of("auto", "cuda", trained) for trained in FORMATS] == ["32-true", "32-true", "64-true"]


def test_a_name_that_is_none_is_answered_with_the_nearest():
    with pytest.raises(RMTError, match=r"unknown precision 'bf16'; .*bf16-mixed"):
        precision_of("bf16", "cpu")


def test_weights_have_a_format_of_their_own():
    assert [weight_format(name) for name in FORMATS] == [torch.float32, torch.float32, torch.float64]


def test_a_model_keeps_the_format_of_its_weights_and_refuses_another(monkeypatch):
    single, double = torch.zeros(1, dtype=torch.float32), torch.zeros(1, dtype=torch.float64)
    assert (precision_for("auto", single), precision_for("auto", double)) == ("32-true", "64-true")
    assert precision_for("bf16-mixed", single) == "bf16-mixed"
    with pytest.raises(ConfigError, match=r"precision=32-true needs weights of torch\.float32"):
        precision_for("32-true", double)


def test_products_are_in_bfloat16_where_the_precision_is_mixed_and_else_as_before():
    matrix, device = torch.ones(2, 2, dtype=torch.float32), torch.device("cpu")
    for name, expected in (("bf16-mixed", torch.bfloat16), ("32-true", torch.float32)):
        with products(name, device):
            assert (matrix @ matrix).dtype == expected
    with torch.autocast("cpu", torch.bfloat16), products("32-true", device):
        assert (matrix @ matrix).dtype == torch.bfloat16
