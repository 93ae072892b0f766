"""Checkpoints are there whole or not at all, and no damage goes unseen."""

import shutil
from pathlib import Path

import pytest
import torch

import rmt
from rmt.errors import CheckpointError
from rmt.store import NotWritten
from rmt.train import checkpoint, snapshots
from rmt.train.checkpoint import Checkpoints, Snapshot, load_parts, write_parts
from tests.disks import full_disk, umask
from tests.train.runs import config_text, run, tiny, trainer_of, weights


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    write_parts(tmp_path, snapshot(7))
    found = load_parts(tmp_path)
    assert found.trainer == snapshot(7).trainer
    for mine, theirs in zip(found[:3], snapshot(7)[:3], strict=True):
        assert {name: tensor.tolist() for name, tensor in mine.items()} == {
            name: tensor.tolist() for name, tensor in theirs.items()
        }


def test_the_newest_checkpoint_is_found_by_its_number_not_its_name(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=9)
    for step in (8, 9, 10, 100, 20):
        checkpoints.save(step, snapshot(step), best=False)
    assert checkpoints.steps() == [100, 20, 10, 9, 8]
    assert checkpoints.newest(pytest.fail).trainer == {"step": 100}


def test_the_newest_k_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3, 4, 5):
        checkpoints.save(step, snapshot(step), best=step == 2)
    assert checkpoints.steps() == [5, 4, 2]
    assert (checkpoints.named("last"), checkpoints.named("best")) == ("step_5", "step_2")


def test_what_was_the_best_for_a_kept_one_is_kept_too(tmp_path):
    """Else a run that goes back to step 4, as step 5 is damaged, would have lost its best."""
    checkpoints, bests = Checkpoints(tmp_path, keep=2), {1: 1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5}
    kept = []
    for step, best in bests.items():
        checkpoints.save(step, snapshot(step)._replace(trainer={"best_step": best}), best=step == best)
        kept.append(checkpoints.steps())
    assert kept[4:] == [[5, 4, 2], [6, 5]]


def test_a_better_one_takes_the_place_of_the_best(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    for step in (1, 2, 3, 4):
        checkpoints.save(step, snapshot(step), best=step in (1, 3))
    assert checkpoints.steps() == [4, 3]
    assert checkpoints.named("best") == "step_3"


def test_a_folder_left_half_written_is_ignored_and_replaced(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, snapshot(1), best=False)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "checksum", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save(2, snapshot(2), best=True)
    assert (tmp_path / "checkpoints" / ".step_2.partial" / "model.safetensors").exists()
    assert checkpoints.steps() == [1]
    assert (checkpoints.named("last"), checkpoints.named("best")) == ("step_1", "")
    assert checkpoints.newest(pytest.fail).trainer == {"step": 1}
    checkpoints.save(2, snapshot(2), best=True)
    assert not list((tmp_path / "checkpoints").glob(".*"))
    assert checkpoints.newest(pytest.fail).trainer == {"step": 2}


def test_nothing_that_is_no_checkpoint_is_taken_for_one(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.steps() == []
    assert checkpoints.newest(pytest.fail) is None
    (tmp_path / "checkpoints" / "step_best").mkdir(parents=True)
    assert checkpoints.steps() == []


def test_damaged_checkpoints_are_passed_over_one_by_one(tmp_path):
    checkpoints, warnings = Checkpoints(tmp_path, keep=9), []
    for step in (1, 2, 3):
        checkpoints.save(step, snapshot(step), best=False)
    for step in (2, 3):
        (tmp_path / "checkpoints" / f"step_{step}" / "state.safetensors").unlink()
    assert checkpoints.newest(warnings.append).trainer == {"step": 1}
    assert [f"step_{step} is damaged: state.safetensors is missing" in warnings[3 - step] for step in (3, 2)]
    assert len(warnings) == 2


def test_going_back_forgets_what_came_later(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=9)
    for step in (1, 2, 3, 4):
        checkpoints.save(step, snapshot(step), best=step in (1, 4))
    checkpoints.rewind(step=2, best=1)
    assert checkpoints.steps() == [2, 1]
    assert (checkpoints.named("last"), checkpoints.named("best")) == ("step_2", "step_1")


def test_going_back_to_nothing_leaves_no_pointer_to_nowhere(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(3, snapshot(3), best=True)
    checkpoints.rewind(step=0, best=0)
    assert checkpoints.steps() == []
    assert (checkpoints.named("last"), checkpoints.named("best")) == ("", "")


@pytest.mark.parametrize("part", ["model", "optimizer", "state"])
def test_any_flipped_byte_of_a_tensor_file_is_seen(tmp_path, part):
    write_parts(tmp_path, snapshot(7))
    path = tmp_path / f"{part}.safetensors"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(flipped(content, place, bit=place % 8))
        with pytest.raises(CheckpointError, match=f"{path.name} does not match its checksum"):
            load_parts(tmp_path)


def test_no_flipped_bit_of_trainer_json_changes_what_is_read(tmp_path):
    write_parts(tmp_path, snapshot(7))
    path = tmp_path / "trainer.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(flipped(content, place, bit=place % 8))
        with pytest.raises(CheckpointError, match=r"trainer\.json|does not match its checksum"):
            load_parts(tmp_path)


@pytest.mark.parametrize("content", ["[]", "3", "null", '{"trainer": 3, "checksums": 4}'])
def test_a_trainer_json_that_holds_something_else_is_damage(tmp_path, content):
    write_parts(tmp_path, snapshot(7))
    (tmp_path / "trainer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"trainer\.json"):
        load_parts(tmp_path)


def test_a_restored_trainer_goes_on_as_the_one_that_was_saved(tmp_path):
    saved, restored = (
        trainer_of(tiny(model={"dropout": 0.2})),
        trainer_of(tiny(model={"dropout": 0.2}, seed=0)),
    )
    list(saved.updates())
    write_parts(tmp_path, snapshots.snapshot(saved))
    state = torch.get_rng_state()
    list(saved.updates())
    assert not torch.equal(state, torch.get_rng_state())
    snapshots.restore(restored, load_parts(tmp_path))
    list(restored.updates())
    mine, theirs = restored.model.state_dict(), saved.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)
    assert snapshots.position(restored) == snapshots.position(saved)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has step 4 as its best checkpoint, and 9 and 12 as its newest."""
    folder = tmp_path_factory.mktemp("finished")
    config = tiny(optimizer={"lr": 1e-30, "matrix_lr": 1e-30})
    run(config, folder)
    assert Checkpoints(folder).steps() == [12, 9, 4]
    assert Checkpoints(folder).named("best") == "step_4"
    return folder


def test_a_run_is_loaded_at_its_best_checkpoint(finished):
    model = rmt.load(finished)
    assert isinstance(model, rmt.SegmentModel)
    assert not model.training
    assert all(torch.equal(tensor, weights(finished, 4)[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_folder_is_loaded_as_itself(finished):
    path = finished / "checkpoints" / "step_12"
    model = rmt.load(str(path))
    assert all(
        torch.equal(tensor, weights(finished, 12)[name]) for name, tensor in model.state_dict().items()
    )


def test_a_loaded_model_predicts_what_the_trained_one_did(finished):
    tokens = torch.arange(8).view(2, 4)
    model = trainer_of(tiny()).model
    model.load_state_dict(weights(finished, 4))
    loaded = rmt.load(finished)
    mine, theirs = (one.eval()(tokens, one.initial_state(2)).logits for one in (loaded, model))
    assert torch.equal(mine, theirs)


def test_a_run_without_checkpoints_cannot_be_loaded(tmp_path):
    (tmp_path / "config.yaml").write_text(config_text(tiny()))
    with pytest.raises(CheckpointError, match="has no checkpoint yet; train it further"):
        rmt.load(tmp_path)


def test_a_folder_that_is_no_run_cannot_be_loaded(tmp_path):
    with pytest.raises(CheckpointError, match=r"is not a run: it has no config\.yaml"):
        rmt.load(tmp_path)


def test_a_full_disk_while_saving_is_one_line_and_the_last_checkpoint_stays(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, snapshot(1), best=True)
    large = snapshot(2)._replace(model={"weight": torch.zeros(10_000)})
    with full_disk(2000), pytest.raises(NotWritten, match=r"step_2' cannot be written .*; free some space"):
        checkpoints.save(2, large, best=True)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["best", "last", "step_1"]
    checkpoints.save(2, large, best=True)
    assert checkpoints.newest(pytest.fail).trainer == {"step": 2}


def test_a_checkpoint_has_the_modes_of_any_file(tmp_path):
    with umask(0o027):
        Checkpoints(tmp_path).save(1, snapshot(1), best=True)
    files = [path for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert len(files) == 6
    assert {path.stat().st_mode & 0o777 for path in files} == {0o640}


def test_a_link_in_the_way_of_a_checkpoint_is_not_followed(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "model.safetensors").write_text("precious")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".step_1.partial").symlink_to(tmp_path / "victim")
    Checkpoints(tmp_path).save(1, snapshot(1), best=True)
    assert (tmp_path / "victim" / "model.safetensors").read_text() == "precious"
    assert not (tmp_path / "checkpoints" / "step_1").is_symlink()


def test_what_a_kill_left_is_gone_when_a_run_goes_on(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, snapshot(1), best=True)
    (checkpoints.folder / ".step_2.partial").mkdir()
    (checkpoints.folder / ".last.partial").touch()
    checkpoints.rewind(step=1, best=1)
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["best", "last", "step_1"]


@pytest.mark.parametrize("content", [b"", b"\xff\n", b"../../x", b"step_", b"step_4/..", b"s" * 9999])
def test_a_pointer_that_names_no_checkpoint_is_damage(finished, tmp_path, content):
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "best").write_bytes(content)
    said = "best' is damaged: it names no checkpoint; name one of .*, or copy it from another copy of the"
    with pytest.raises(CheckpointError, match=said):
        rmt.load(tmp_path / "run")


def snapshot(step: int) -> Snapshot:
    return Snapshot(
        {"weight": torch.full((2, 3), float(step))},
        {"0.0.step": torch.tensor(step)},
        {"rng": torch.arange(5, dtype=torch.uint8)},
        {"step": step},
    )


def flipped(content: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[place] ^= 1 << bit
    return bytes(changed)
