"""A run folder is made, resumed, finished, or refused."""

import shutil
from contextlib import suppress

import pytest

from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.experiments import run
from rmt.experiments.opened import open_run
from rmt.experiments.run import settled, stored_precision, train
from rmt.train.checkpoint import Checkpoints, load, run_folder
from rmt.train.divergence import Diverged
from rmt.train.folder import FolderInUse, load_result, locked
from rmt.train.loop import Loop
from rmt.train.stored import load_config, written
from tests.disks import full_disk
from tests.gpus import pretend
from tests.train.runs import Unplugged, Watcher, metrics, tiny


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that is finished, and one that was stopped behind step 8."""
    folder = tmp_path_factory.mktemp("runs")
    train(tiny(), folder / "finished", Watcher())
    with pytest.raises(Unplugged):
        train(tiny(), folder / "stopped", Watcher(stop=8))
    return folder


@pytest.fixture
def finished(runs, tmp_path):
    """The folder of a finished run."""
    return shutil.copytree(runs / "finished", tmp_path / "run")


@pytest.fixture
def stopped(runs, tmp_path):
    """The folder of a run that was stopped."""
    return shutil.copytree(runs / "stopped", tmp_path / "run")


def test_a_run_is_trained_once_and_then_found(tmp_path):
    first, was_finished = train(tiny(), tmp_path / "deep" / "run", Watcher())
    assert not was_finished
    watcher = Watcher()
    second, was_finished = train(tiny(), tmp_path / "deep" / "run", watcher)
    assert was_finished
    assert second == load_result(tmp_path / "deep" / "run")
    assert second["metrics"] == first["metrics"]
    assert watcher.steps == []


def test_a_stopped_run_is_resumed(stopped):
    watcher = Watcher()
    _, was_finished = train(tiny(), stopped, watcher)
    assert not was_finished
    assert watcher.messages == ["resuming at step 6", "32-true on the CPU"]


def test_the_first_start_decides_the_number_format_and_writes_it_down(tmp_path, monkeypatch):
    result, _ = train(tiny(), tmp_path, Watcher())
    assert (load_config(tmp_path).precision, result["config"]["precision"]) == ("32-true", "32-true")
    pretend(monkeypatch, "NVIDIA H200")
    assert settled(tiny(device="auto"), stored_precision(tmp_path / "new", False)).precision == "bf16-mixed"
    assert settled(tiny(device="auto"), stored_precision(tmp_path, False)).precision == "32-true"
    assert settled(tiny(device="auto"), stored_precision(tmp_path, True)).precision == "bf16-mixed"


@pytest.mark.parametrize(
    "stored", ["bf16-mixed", *(pytest.param(name, marks=pytest.mark.slow) for name in ("32-true", "64-true"))]
)
def test_auto_goes_on_in_the_number_format_of_the_run(tmp_path, stored):
    train(tiny(precision=stored), tmp_path / "whole", Watcher())
    with pytest.raises(Unplugged):
        train(tiny(precision=stored), tmp_path / "run", Watcher(stop=8))
    watcher = Watcher()
    result, _ = train(tiny(), tmp_path / "run", watcher)
    assert watcher.messages == ["resuming at step 6", f"{stored} on the CPU"]
    assert load_config(tmp_path / "run").precision == result["config"]["precision"] == stored
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    assert train(tiny(), tmp_path / "run", Watcher())[1]
    assert train(tiny(precision=stored), tmp_path / "run", Watcher())[1]


@pytest.mark.parametrize(("stored", "asked"), [("auto", "bf16-mixed"), ("bf16-mixed", "32-true")])
def test_another_number_format_is_another_configuration(tmp_path, stored, asked):
    train(tiny(precision=stored), tmp_path, Watcher())
    was = {"auto": "32-true"}.get(stored, stored)
    with pytest.raises(ConfigError, match=rf"holds a run with precision={was}, not {asked}; name another"):
        train(tiny(precision=asked), tmp_path, Watcher())


def test_a_folder_that_says_auto_is_that_of_its_device(finished):
    (finished / "config.yaml").write_text(written(tiny()))
    assert load_config(finished).precision == "auto"
    assert train(tiny(), finished, Watcher())[1]
    with pytest.raises(ConfigError, match="holds a run with precision=32-true, not 64-true"):
        train(tiny(precision="64-true"), finished, Watcher())


def test_another_configuration_is_refused_naming_the_first_difference(finished):
    with pytest.raises(ConfigError, match=r"model\.dropout=0\.0, not 0\.5; name another --out"):
        train(tiny(model={"dropout": 0.5}), finished, Watcher())


def test_another_configuration_may_be_started_anew(finished):
    result, was_finished = train(tiny(seed=5), finished, Watcher(), restart=True)
    assert (result["seed"], was_finished) == (5, False)


def test_settings_that_prove_impossible_leave_no_folder_behind(tmp_path):
    with pytest.raises(ConfigError, match=r"curriculum\.start=9"):
        train(tiny(curriculum={"over": "length", "start": 9}), tmp_path / "run", Watcher())
    assert not list(tmp_path.iterdir())


def test_a_folder_that_already_has_other_things_keeps_them(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    train(tiny(train={"steps": 1}), tmp_path, Watcher())
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_result_cut_short_is_an_error(tmp_path):
    assert load_result(tmp_path) == {}
    (tmp_path / "result.json").write_text('{"value"')
    with pytest.raises(CheckpointError, match=r"is damaged .*; delete it"):
        load_result(tmp_path)


def test_the_run_of_a_checkpoint_is_found(finished):
    last = finished / "checkpoints" / Checkpoints(finished).named("last")
    assert run_folder(finished) == run_folder(last) == finished


def test_a_kill_before_the_result_costs_the_test_only(tmp_path, monkeypatch):
    def killed(self: Loop) -> None:
        raise Unplugged

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "finish", killed)
        with pytest.raises(Unplugged):
            train(tiny(), tmp_path, Watcher())
    watcher = Watcher()
    result, _ = train(tiny(), tmp_path, watcher)
    assert watcher.steps == []
    assert result["steps"] == 12


def test_restart_never_deletes_what_no_run_wrote(tmp_path):
    (tmp_path / "config.yaml").write_text("foo: 1\n")
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is not a run folder: --restart will not delete it"):
        train(tiny(), tmp_path, Watcher(), restart=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "thesis.txt"]


def test_restart_keeps_files_of_others_in_a_run_folder(finished):
    (finished / "notes.txt").write_text("mine")
    train(tiny(), finished, Watcher(), restart=True)
    assert (finished / "notes.txt").read_text() == "mine"


def test_restart_keeps_files_of_others_beside_checkpoints_and_deletes_every_checkpoint(finished):
    checkpoints = finished / "checkpoints"
    shutil.copytree(checkpoints / "step_12", checkpoints / "step_12-copy")
    shutil.copytree(checkpoints / "step_12", checkpoints / "step_100")
    (checkpoints / "notes.txt").write_text("mine")
    before = contents(checkpoints / "step_12-copy")
    watcher = Watcher()
    train(tiny(seed=5, train={"steps": 6}), finished, watcher, restart=True)
    assert not any("resuming" in message for message in watcher.messages)
    assert contents(checkpoints / "step_12-copy") == before
    assert (checkpoints / "notes.txt").read_text() == "mine"
    assert {path.name for path in checkpoints.iterdir()}.isdisjoint({"step_12", "step_100"})


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_that_another_process_trains_in_is_refused(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(ConfigError, match="is being trained by another process; wait for it"),
    ):
        train(tiny(), tmp_path, Watcher())


def test_a_run_that_another_process_finishes_meanwhile_is_not_trained_again(finished, monkeypatch):
    before = (finished / "result.json").read_bytes()
    monkeypatch.setattr(run, "finished", lambda *_: {})  # it was not, when this process looked
    with pytest.raises(FolderInUse, match="has just been finished by another process"):
        train(tiny(), finished, Watcher())
    assert (finished / "result.json").read_bytes() == before


@pytest.mark.parametrize("name", ["vocabulary.json", "task.json"])
def test_a_kill_before_a_folder_is_complete_is_mended_by_the_next_start(stopped, name):
    (stopped / name).unlink()
    (stopped / f".{name}.partial").write_text("half")
    train(tiny(), stopped, Watcher())
    assert open_run(stopped).segment_length == 2
    assert not list(stopped.glob(".*"))


@pytest.mark.parametrize("name", ["vocabulary.json", "task.json"])
def test_no_flipped_bit_of_what_a_run_keeps_of_its_task_goes_unseen(tmp_path, name):
    train(tiny(train={"steps": 1}), tmp_path, Watcher())
    content = (tmp_path / name).read_bytes()
    expected = open_run(tmp_path)
    for offset in range(0, len(content), 5):
        changed = bytearray(content)
        changed[offset] ^= 1 << offset % 7
        (tmp_path / name).write_bytes(changed)
        with suppress(CheckpointError):
            opened = open_run(tmp_path)
            assert opened.segment_length == expected.segment_length
            assert opened.tokenizer.content() == expected.tokenizer.content()


def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(runs, stopped):
    whole = runs / "finished"
    with full_disk(1500), pytest.raises(RMTError, match=r"cannot be written \(File too large\)"):
        train(tiny(), stopped, Watcher())
    result, _ = train(tiny(), stopped, Watcher())
    assert result["metrics"] == load_result(whole)["metrics"]
    assert metrics(stopped) == metrics(whole)
    assert not list(stopped.rglob(".*"))


def test_a_run_with_a_damaged_configuration_may_be_started_anew(finished):
    path = finished / "config.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(CheckpointError, match="does not match its sha256"):
        train(tiny(), finished, Watcher())
    result, was_finished = train(tiny(), finished, Watcher(), restart=True)
    assert (result["seed"], was_finished) == (0, False)


def test_the_configuration_of_another_run_is_refused(tmp_path):
    for name, depth in (("a", 0), ("b", 1)):
        config = tiny(model={"memory": {"size": 2, "sees_cache": bool(depth)}, "cache": {"size": 2}})
        train(config, tmp_path / name, Watcher())
    (tmp_path / "a" / "config.yaml").write_text((tmp_path / "b" / "config.yaml").read_text())
    with pytest.raises(CheckpointError, match=r"of another model than the checkpoint; .*a/config\.yaml"):
        load(tmp_path / "a")


def test_a_run_that_diverges_is_named_when_the_others_are_done(monkeypatch):
    begun = []

    def train(name, restart):
        begun.append(name)
        if name != "last":
            raise Diverged(f"{name} diverges", 7)
        return {"value": 1.0}, False

    monkeypatch.setattr(run, "train", train)
    with pytest.raises(Diverged, match="first diverges"):
        run.train_in_turn([("first",), ("second",), ("last",)])
    assert begun == ["first", "second", "last"]
