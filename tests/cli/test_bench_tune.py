"""`rmt bench --tune`: a table of trials, the best of them kept for the card."""

import json

import pytest
import torch

from rmt.bench.tune import TunedKernel
from rmt.cli.bench_tune import keep, tune_kernels
from rmt.errors import ConfigError
from rmt.gpu.tiles_file import tiles_path
from tests.cli.test_bad_input import assert_refused


def made(table):
    """A kernel of one constant that is the faster the larger it is, and cannot be 256."""

    def run() -> torch.Tensor:
        if table["rotate"]["rows"] == 256:
            raise RuntimeError("too large")
        return torch.ones(2)

    def times(call) -> list[float]:
        return [1e-3 / table["rotate"]["rows"]] * 5

    return [TunedKernel("rotate", [{"rows": rows} for rows in (16, 64, 256)], run)], times


def test_every_trial_is_a_line_and_the_best_is_kept(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("RMT_TILES", str(tmp_path))
    table = {"rotate": {"rows": 32}, "aligned": {"rows": 8}}
    kernels, times = made(table)
    tuned = tune_kernels([], kernels, table, times)
    assert tuned == {"rotate": {"rows": 64}, "aligned": {"rows": 8}}
    assert capsys.readouterr().out.splitlines() == [
        "rotate  rows=32  31.2 µs  31.2 to 31.2  (current)",
        "rotate  rows=16  62.5 µs  62.5 to 62.5",
        "rotate  rows=64  15.6 µs  15.6 to 15.6",
        "rotate  rows=256  failed: too large",
        "rotate  best: rows=64",
    ]
    assert keep("NVIDIA H200", tuned) == 0
    assert json.loads(tiles_path("NVIDIA H200").read_text())["kernels"] == tuned


def test_a_kernel_that_is_not_there_is_refused():
    table = {"rotate": {"rows": 32}}
    kernels, times = made(table)
    with pytest.raises(ConfigError, match=r"unknown kernel 'rotat'; did you mean 'rotate'\?"):
        tune_kernels(["rotat"], kernels, table, times)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", ["tune", "on a GPU", "leave it out"]),
        ("--batch 4", ["train", "no effect on --tune"]),
        ("--updates 3", ["updates=3", "no effect with --tune"]),
        ("--seeds 3", ["seeds=3", "no effect with --tune"]),
        ("--paths fast", ["paths=fast", "no effect with --tune"]),
        ("--out pages", ["out=pages", "no effect with --tune"]),
    ],
)
def test_what_tuning_cannot_do_is_refused(capsys, options, words):
    assert_refused(capsys, f"bench --tune --device cpu {options}", words)
