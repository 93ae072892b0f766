"""A fine-tuning run killed anywhere and started again ends as one that nothing has stopped, bit by bit."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch

from rmt.documents import resuming, trainer
from rmt.errors import CheckpointError
from rmt.stopping import Stopped, handling_signals
from rmt.store import NotWritten
from rmt.train.checkpoint import Checkpoints, load_parts
from rmt.train.divergence import Diverged
from tests.covering import quick
from tests.disks import full_disk
from tests.documents.tiny import (
    FinetuneWatcher,
    Signaller,
    finetune_end,
    tiny_finetune,
    write_backbone,
    write_documents,
)
from tests.train.runs import Unplugged

STILL = {"lr": 1e-12, "epochs": 9, "patience": 2}  # nothing gets better
EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A backbone, documents, and a run that nothing has stopped."""
    folder = tmp_path_factory.mktemp("finetune")
    write_backbone(folder)
    write_documents(folder / "documents.jsonl")
    tiny_finetune(folder, "whole")
    return folder


def test_a_run_says_how_many_steps_it_has_at_most_and_patience_may_end_it_before(folder, out):
    watcher = FinetuneWatcher()
    result = tiny_finetune(folder, out, watcher, **STILL)
    assert "32-true on the CPU, at most 45 steps" in watcher.messages  # 9 epochs of 5 batches
    assert result["steps"] < 45


@pytest.fixture
def out(folder):
    """The name of a run folder, which is deleted behind the test."""
    yield "run"
    shutil.rmtree(folder / "run", ignore_errors=True)


def is_change(event, arguments, run):
    """Whether an audited event changes something in a run folder."""
    writes = event != "open" or (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR))
    path = str(arguments[0]) if arguments and isinstance(arguments[0], (str, Path)) else ""
    within = path.startswith(run) or event == "os.remove"  # rmtree removes names within a descriptor
    return event in EVENTS and bool(writes) and within


def in_child(work):
    """The status of a forked process that does some work and nothing else."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
        os._exit(0)
    except BaseException:
        os._exit(70)


def killed_at(folder, out, number):
    """Fine-tune in another process, which is killed before change `number` of its folder; -9 or 0."""

    def work():
        changes = 0

        def count(event, arguments):
            nonlocal changes
            if is_change(event, arguments, str(folder / out)):
                changes += 1
                if changes == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        tiny_finetune(folder, out)

    return in_child(work)


def assert_same_end(folder, out):
    assert finetune_end(folder / out) == finetune_end(folder / "whole")


@pytest.mark.parametrize("number", quick({"log": 17, "save": 34, "end": 60}, "save", "end"))
def test_a_run_killed_before_a_change_of_its_folder_ends_as_an_uninterrupted_one(folder, out, number):
    assert killed_at(folder, out, number) == -signal.SIGKILL
    tiny_finetune(folder, out)
    assert_same_end(folder, out)


@pytest.mark.slow
def test_a_run_killed_before_any_change_of_its_folder_ends_as_an_uninterrupted_one(folder, out):
    number = kills = 0
    status = -signal.SIGKILL
    while status:
        number += 1
        status = killed_at(folder, out, number)
        assert status in (0, -signal.SIGKILL)
        kills += status < 0
        tiny_finetune(folder, out)
        assert_same_end(folder, out)
        shutil.rmtree(folder / out)
    assert kills > 70


def test_files_of_others_beside_checkpoints_outlive_the_end_of_a_run_and_a_restart(folder, out):
    notes = folder / out / "checkpoints" / "notes.txt"
    with pytest.raises(Stopped), handling_signals():
        tiny_finetune(folder, out, Signaller(3))
    notes.write_text("mine")
    tiny_finetune(folder, out)
    assert list(notes.parent.iterdir()) == [notes]
    tiny_finetune(folder, out, restart=True)
    assert list(notes.parent.iterdir()) == [notes]


def test_a_run_killed_again_and_again_ends_as_an_uninterrupted_one(folder, out):
    statuses = [killed_at(folder, out, number) for number in (9, 12, 25)]
    assert set(statuses) == {-signal.SIGKILL}
    tiny_finetune(folder, out)
    assert_same_end(folder, out)


def test_a_run_stopped_by_signals_ends_as_an_uninterrupted_one(folder, out):
    """Also between the lines of the log: a line is about steps before the signal and behind it."""
    for step in (3, 6):
        with (
            handling_signals(),
            pytest.raises(Stopped, match=rf"step {step + 1} is saved in .*; the same command"),
        ):
            tiny_finetune(folder, out, Signaller(step))
    tiny_finetune(folder, out)
    assert_same_end(folder, out)


def test_patience_is_not_renewed_by_a_new_start(folder, out):
    """Two evaluations behind the first, it is over."""
    first = tiny_finetune(folder, "still", **STILL)
    assert (first["steps"], first["best_step"]) == (9, 3)
    with pytest.raises(Unplugged):
        tiny_finetune(folder, out, FinetuneWatcher(stop=9), **STILL)
    watcher = FinetuneWatcher()
    assert tiny_finetune(folder, out, watcher, **STILL)["steps"] == 9
    assert "going on from step 6" in watcher.messages


@pytest.mark.parametrize("settings", [{}, STILL], ids=["last step", "patience"])
def test_a_run_killed_when_training_was_over_is_not_trained_further(folder, out, settings, monkeypatch):
    def killed(*_):
        raise Unplugged

    with monkeypatch.context() as patch:
        patch.setattr("rmt.documents.finetune.save_model", killed)
        with pytest.raises(Unplugged):
            tiny_finetune(folder, out, **settings)
    seconds = Checkpoints(folder / out).newest(pytest.fail).trainer["seconds"]
    watcher = FinetuneWatcher()
    result = tiny_finetune(folder, out, watcher, **settings)
    assert watcher.steps == []
    assert result["seconds"] == seconds


def test_seconds_are_those_of_all_parts(folder, out, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(resuming.time, "monotonic", lambda: now[0])

    class Slow(FinetuneWatcher):
        def evaluated(self, record):
            now[0] += 10

    with handling_signals(), pytest.raises(Stopped):
        tiny_finetune(folder, out, SlowSignaller(now))
    result = tiny_finetune(folder, out, Slow())
    assert result["seconds"] == 10.0 * (result["steps"] // 3 + (result["steps"] % 3 > 0))


class SlowSignaller(Signaller):
    """Takes ten seconds for an evaluation."""

    def __init__(self, now):
        super().__init__(6)
        self.now = now

    def evaluated(self, record):
        self.now[0] += 10
        super().evaluated(record)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_gone_on_from(folder, out):
    with pytest.raises(Unplugged):
        tiny_finetune(folder, out, FinetuneWatcher(stop=12))
    store = Checkpoints(folder / out)
    newest, before = store.steps()[:2]
    (store.folder / f"step_{newest}" / "state.safetensors").write_bytes(b"")
    watcher = FinetuneWatcher()
    tiny_finetune(folder, out, watcher)
    assert any(f"step_{newest} is damaged" in text for text in watcher.messages)
    assert f"going on from step {before}" in watcher.messages
    assert_same_end(folder, out)


def test_a_full_disk_is_a_line_and_loses_nothing(folder, out):
    with pytest.raises(Unplugged):
        tiny_finetune(folder, out, FinetuneWatcher(stop=6))
    before = Checkpoints(folder / out).steps()
    with full_disk(20_000), pytest.raises(NotWritten, match="free some space and start again"):
        tiny_finetune(folder, out)
    assert Checkpoints(folder / out).steps() == before
    tiny_finetune(folder, out)
    assert_same_end(folder, out)


def test_a_full_disk_at_the_end_is_a_line_and_loses_nothing(folder, out, monkeypatch):
    real = resuming.put_weights

    def put(model, weights):
        real(model, weights)
        resource_limit.__enter__()

    resource_limit = full_disk(20_000)
    monkeypatch.setattr("rmt.documents.finetune.put_weights", put)
    try:
        with pytest.raises(NotWritten, match=r"run/model.* cannot be written .*free some space"):
            tiny_finetune(folder, out)
    finally:
        resource_limit.__exit__(None, None, None)
    assert not (folder / out / "model").exists()
    monkeypatch.undo()
    tiny_finetune(folder, out)
    assert_same_end(folder, out)


def test_other_documents_are_not_gone_on_with(folder, out):
    with pytest.raises(Unplugged):
        tiny_finetune(folder, out, FinetuneWatcher(stop=6))
    documents = folder / "documents.jsonl"
    text = documents.read_text()
    try:
        documents.write_text(text.replace("film", "was"))
        with pytest.raises(CheckpointError, match="are not the documents that this run was trained on"):
            tiny_finetune(folder, out)
    finally:
        documents.write_text(text)


def test_a_checkpoint_of_an_earlier_release_is_removed_with_a_line(folder, out):
    old = folder / out / "checkpoints" / "checkpoint-4"
    old.mkdir(parents=True)
    (old / "optimizer.pt").write_bytes(b"half")
    watcher = FinetuneWatcher()
    tiny_finetune(folder, out, watcher)
    assert any("checkpoint-4 is a checkpoint of an earlier release" in text for text in watcher.messages)
    assert_same_end(folder, out)


@pytest.mark.parametrize("log_every", [3, 10], ids=["loss", "weight"])
def test_a_run_that_diverges_says_so_and_saves_nothing_that_is_no_number(folder, out, monkeypatch, log_every):
    real_arguments, real_step = trainer.arguments, trainer.DocumentTraining.training_step

    def arguments(job):
        settings = real_arguments(job)
        settings.logging_steps = log_every
        return settings

    def training_step(self, model, inputs, *rest):
        if self.state.global_step == 4:
            next(model.parameters()).data.fill_(float("nan"))
        return real_step(self, model, inputs, *rest)

    monkeypatch.setattr(trainer, "arguments", arguments)
    monkeypatch.setattr(trainer.DocumentTraining, "training_step", training_step)
    name = "loss" if log_every == 3 else "weight"
    with pytest.raises(Diverged, match=rf"{name}=nan at step 6: .* checkpoint of step 3 .* lower --lr"):
        tiny_finetune(folder, out)
    assert Checkpoints(folder / out).steps() == [3]
    for step in Checkpoints(folder / out).steps():
        weights = load_parts(folder / out / "checkpoints" / f"step_{step}").model
        assert all(tensor.isfinite().all() for tensor in weights.values())


def test_a_snapshot_of_other_weights_is_refused():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="weight of the backbone is not as it was when this run began"):
        resuming.put_weights(model, {"weight": torch.zeros(3, 2), "bias": torch.zeros(2)})
