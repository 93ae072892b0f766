"""Several processes, as torchrun starts them, fine-tune as one process does."""

import json
import signal
import time

import numpy as np
import pytest
from safetensors.torch import load_file

from rmt.documents.config import FinetuneConfig
from rmt.documents.finetune import launched
from rmt.errors import ConfigError
from tests.documents.tiny import finetune_end, finetune_words, write_backbone, write_documents
from tests.train.processes import start_processes

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # processes draw their own
SETTINGS = {"precision": "64-true", "lr": 1e-2, "patience": 9}


@pytest.fixture
def folder(tmp_path):
    write_backbone(tmp_path, **STILL)
    write_documents(tmp_path / "documents.jsonl")
    return tmp_path


def run(folder, out, count, **settings):
    """The exit codes and last errors of the processes of a run."""
    words = finetune_words(folder, out, **SETTINGS, **settings)
    processes = start_processes(count, words)
    ended = [process.communicate() for process in processes]
    return [process.returncode for process in processes], [errors[-500:] for _, errors in ended]


def numbers(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "split"} for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "at_once"), [(4, 2), (10, 4)], ids=["divided", "undivided"])
def test_two_processes_are_one_with_the_same_batch(folder, batch, at_once):
    for out, count in (("one", 1), ("two", 2)):
        codes, errors = run(folder, out, count, batch=batch, at_once=at_once)
        assert set(codes) == {0}, errors
    one, two = numbers(folder / "one"), numbers(folder / "two")
    assert [line["step"] for line in one] == [line["step"] for line in two]
    for mine, theirs in zip(one, two, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-6)
    weights = [load_file(folder / out / "model" / "model.safetensors") for out in ("one", "two")]
    for name, tensor in weights[0].items():
        np.testing.assert_allclose(tensor, weights[1][name], rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_a_signal_to_one_of_two_processes_saves_once_and_both_go_on(folder):
    assert set(run(folder, "whole", 2, epochs=20)[0]) == {0}
    words = finetune_words(folder, "stopped", **SETTINGS, epochs=20)
    processes = start_processes(2, words)
    while not (folder / "stopped" / "checkpoints" / "last").exists():
        assert processes[0].poll() is None
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGTERM)
    ended = [process.communicate() for process in processes]
    assert {process.returncode for process in processes} == {128 + signal.SIGTERM}, ended
    assert set(run(folder, "stopped", 2, epochs=20)[0]) == {0}
    assert finetune_end(folder / "stopped") == finetune_end(folder / "whole")


@pytest.mark.parametrize("name", ["DEEPSPEED", "FSDP"])
def test_weights_that_are_split_among_processes_are_refused(monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(ConfigError, match=f"{name} splits weights among processes, and each segment"):
        launched(FinetuneConfig(backbone="bert", device="cpu"))


def test_a_batch_that_does_not_share_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="batch=16 does not share among 3 processes"):
        launched(FinetuneConfig(backbone="bert", device="cpu"))
