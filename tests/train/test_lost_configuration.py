"""A run that has lost its config.yaml: no other one goes on there, and --restart deletes what it wrote."""

import shutil

import pytest

from rmt.errors import ConfigError
from rmt.experiments.run import train, train_seeds
from tests.train.runs import Unplugged, Watcher, tiny

LOST = "holds a run whose config.yaml is lost.*copy config.yaml from another copy of the run, or .* --restart"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a run that was stopped behind step 8."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Unplugged):
        train(tiny(), folder, Watcher(stop=8))
    return folder


@pytest.fixture
def lost(stopped, tmp_path):
    """A copy of it without its configuration, and with a file of a user."""
    folder = shutil.copytree(stopped, tmp_path / "run")
    (folder / "config.yaml").unlink()
    (folder / "mine.txt").write_text("mine")
    return folder


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_goes_on_where_the_configuration_is_lost(lost):
    before = content(lost)
    for config in (tiny(), tiny(seed=1)):
        with pytest.raises(ConfigError, match=LOST):
            train(config, lost, Watcher())
    assert content(lost) == before


def test_seeds_are_not_trained_beside_what_is_left_of_a_single_run(lost):
    with pytest.raises(ConfigError, match="holds a single run; name another --out for many seeds"):
        train_seeds(tiny(), lost, [Watcher(), Watcher()])


def test_a_result_alone_is_of_a_run_too(lost, stopped):
    with pytest.raises(ConfigError, match=LOST):
        train(tiny(), lost, Watcher())
    shutil.copy(stopped / "config.yaml", lost)
    train(tiny(), lost, Watcher())
    shutil.rmtree(lost / "checkpoints")
    (lost / "config.yaml").unlink()
    with pytest.raises(ConfigError, match=LOST):
        train(tiny(), lost, Watcher())


def test_restart_deletes_what_the_run_wrote_and_trains_anew(lost):
    watcher = Watcher()
    _, was_finished = train(tiny(seed=1), lost, watcher, restart=True)
    assert not was_finished
    assert not any("resuming" in message for message in watcher.messages)
    assert (lost / "mine.txt").read_text() == "mine"


def test_a_seed_among_many_is_refused_as_well(lost, tmp_path):
    shutil.copytree(lost, tmp_path / "many" / "seed-0")
    with pytest.raises(ConfigError, match=LOST):
        train_seeds(tiny(), tmp_path / "many", [Watcher(), Watcher()])


@pytest.mark.parametrize("name", ["checkpoints/step_3/weights.bin", "result.json", "notes.txt"])
def test_what_no_run_has_written_is_never_deleted(name, tmp_path):
    file = tmp_path / "run" / name
    file.parent.mkdir(parents=True)
    file.write_text("[1]")
    with pytest.raises(ConfigError, match="is not a run folder: --restart will not delete it"):
        train(tiny(), tmp_path / "run", Watcher(), restart=True)
    assert file.read_text() == "[1]"
