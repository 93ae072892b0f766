"""The worker: a file of settings becomes a run in the folder beside it, which goes on after a kill."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rmt
from rmt.experiments.worker import main
from rmt.yamlfile import write_yaml
from tests.experiments.tiny import echo


@pytest.fixture
def settings(tmp_path):
    """A file of settings, whose run is `first`."""
    file = tmp_path / "first.yaml"
    file.write_text(write_yaml(echo()))
    return file


def started(file: Path) -> subprocess.Popen[str]:
    """The worker as a queue starts it."""
    places = (Path(rmt.__file__).parents[1], Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))}
    command = [sys.executable, "-m", "rmt.experiments.worker", str(file)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def test_a_run_is_trained_in_the_folder_beside_its_settings_once(settings):
    worker = started(settings)
    said, _ = worker.communicate()
    assert worker.returncode == 0, said
    result = settings.parent / "first/result.json"
    written = result.stat().st_mtime_ns
    assert "step 4  training loss" in said
    assert f"accuracy {json.loads(result.read_text())['value']:.4f} on the test split" in said
    assert main([str(settings)]) == 0
    assert result.stat().st_mtime_ns == written


def test_a_killed_run_goes_on_where_it_was(settings):
    settings.write_text(write_yaml(echo(train={"steps": 200, "save_every": 2, "evaluate_every": 2})))
    worker, folder = started(settings), settings.parent / "first"
    while not (folder / "checkpoints/last").exists() and worker.poll() is None:
        time.sleep(0.01)
    worker.kill()
    worker.communicate()
    assert not (folder / "result.json").exists()
    again = started(settings)
    said, _ = again.communicate()
    assert again.returncode == 0, said
    assert "resuming at step" in said
    assert json.loads((folder / "result.json").read_text())["steps"] == 200


def test_other_settings_for_the_same_run_are_refused(settings, caplog):
    assert main([str(settings)]) == 0
    settings.write_text(write_yaml(echo(seed=5)))
    assert main([str(settings)]) == 2
    assert "holds a run with seed=0, not 5" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: many", "rmt: seed='many' is not a whole number"),
        ("sead: 1", "rmt: unknown key 'sead'; did you mean 'seed'?"),
        ("- 1", "must hold a mapping of settings"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line_and_exit_code_two(tmp_path, caplog, text, message):
    file = tmp_path / "first.yaml"
    file.write_text(text)
    assert main([str(file)]) == 2
    assert message in caplog.messages[-1]
    assert "\n" not in caplog.messages[-1]
    assert not (tmp_path / "first").exists()


@pytest.mark.parametrize("arguments", [[], ["a.yaml", "b.yaml"], ["missing.yaml"], ["folder"]])
def test_anything_but_one_file_of_settings_is_a_mistake(arguments, caplog):
    assert main(arguments) == 2
    assert len(caplog.messages) == 1
