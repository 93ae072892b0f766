"""Sums are in float64, and in float32 where a device has nothing finer."""

import re

import pytest
import torch

from rmt.errors import ConfigError
from rmt.nn.widest import widest
from rmt.precision import precision_of
from rmt.train.device import device_name, device_of
from tests.source import SOURCE

# where float64 is on the CPU whatever the device is, or asked for by a precision
ON_THE_CPU = {
    "nn/widest.py",
    "infer/sampling.py",
    "train/processes.py",
    "precision.py",
}
FLOAT64 = re.compile(r"\.double\(\)|torch\.float64")


def test_apples_gpu_sums_in_float32_and_all_others_in_float64():
    assert widest(torch.device("mps")) is torch.float32
    assert widest(torch.device("cpu")) is widest(torch.device("cuda")) is torch.float64


@pytest.mark.parametrize("folder", ["nn", "core", "infer", "evaluate", "train"])
def test_nothing_that_runs_on_a_device_asks_for_float64_by_name(folder):
    for file in (SOURCE / folder).rglob("*.py"):
        name = str(file.relative_to(SOURCE))
        lines = [line for line in file.read_text().splitlines() if FLOAT64.search(line)]
        allowed = name in ON_THE_CPU or all("batch.loss_mask" in line for line in lines)
        assert allowed, (name, lines)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an Apple GPU")
def test_a_missing_apple_gpu_is_one_line():
    with pytest.raises(ConfigError, match="device=mps: torch has no Apple GPU here; use cpu or auto"):
        device_of("mps")


def test_apples_gpu_has_a_name_and_no_float64():
    assert device_name("mps") == "Apple's GPU"
    assert precision_of("auto", "mps") == "32-true"
    for asked, trained in (("64-true", "auto"), ("auto", "64-true")):
        with pytest.raises(ConfigError, match="device=mps has no float64; use device=cpu"):
            precision_of(asked, "mps", trained)
