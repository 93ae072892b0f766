"""A backbone that is no folder: the hub is asked once, and where it does not answer, that is one line."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub
import pytest
import transformers

from rmt.documents.pretrained import PretrainedSource, hub_answers
from rmt.errors import ConfigError
from tests.documents.tiny import write_backbone

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9"  # the port of nobody


@pytest.fixture
def asked(monkeypatch):
    """The hosts that were looked for; none is found."""
    hosts = []

    def lookup(host, *args, **options):
        hosts.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    hub_answers.cache_clear()
    yield hosts
    hub_answers.cache_clear()


def test_a_hub_that_does_not_answer_is_asked_once_and_told_in_a_line(asked, monkeypatch, caplog):
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it is asked again and again"))
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^backbone='nofolder' cannot be loaded \(.*connect"):
            PretrainedSource("backbone", "nofolder").config()
    assert len(asked) <= 2  # the library's client asks for something of its own, once in a process
    assert caplog.messages == []


def test_a_folder_never_asks_the_hub(asked, tmp_path):
    folder = str(write_backbone(tmp_path))
    source = PretrainedSource("backbone", folder)
    assert source.config().model_type == "bert"
    source.load(transformers.AutoModel)
    source.load(transformers.AutoTokenizer)
    with pytest.raises(ConfigError):
        PretrainedSource("backbone", str(tmp_path)).config()
    assert asked == []


def test_a_model_that_was_loaded_before_comes_without_the_hub_at_once(asked, monkeypatch, tmp_path):
    cached = tmp_path / "models--some--model"
    shutil.copytree(write_backbone(tmp_path), cached / "snapshots" / "abc")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it is asked again and again"))
    source = PretrainedSource("backbone", "some/model")
    assert source.config().model_type == "bert"
    times = len(asked)
    source.load(transformers.AutoModel)
    tokenizer = source.load(transformers.AutoTokenizer)
    assert len(asked) == times
    assert "adapter_kwargs" not in tokenizer.init_kwargs


@pytest.mark.parametrize("command", ["info nofolder", "finetune documents.jsonl --backbone nofolder"])
def test_a_command_without_the_hub_prints_one_line_soon(command, tmp_path):
    (tmp_path / "documents.jsonl").write_text('{"text": "a", "label": "b"}\n' * 20)
    start = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "rmt", *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HF_ENDPOINT": NOWHERE, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.returncode == 2
    assert process.stderr.startswith("rmt: ")
    assert process.stderr.count("\n") == 1
    assert time.monotonic() - start < 60  # it was 27 s beyond loading
