"""A sample of what `make soak` does: whatever ends a command, hinders it or is damaged, nothing is wrong."""

import shutil
import signal
from pathlib import Path

import pytest

from tests.soak.__main__ import soak
from tests.soak.children import run
from tests.soak.compared import differences
from tests.soak.plugs import AtByte, AtEvent
from tests.soak.shares import make_whole

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A workspace as all cases of this file start from."""
    folder = tmp_path_factory.mktemp("soak")
    make_whole(folder / "whole")
    return folder


def sample(folder: Path, tmp_path: Path, **counts: int):
    """Outcomes of so many cases; none of them is bad."""
    (tmp_path / "whole").symlink_to(folder / "whole")
    outcomes, bad = soak(counts, seed=17, jobs=1, folder=tmp_path)
    assert bad == []
    return outcomes


def test_killed_and_stopped_commands_go_on_and_end_with_the_bits_of_uninterrupted_ones(folder, tmp_path):
    outcomes = sample(folder, tmp_path, kills=4)
    assert outcomes["killed"] >= 4
    assert outcomes["resumed"] > 1


def test_full_disks_removed_folders_and_other_hostile_systems_are_answered_in_a_line(folder, tmp_path):
    outcomes = sample(folder, tmp_path, system=7)
    assert outcomes["refused"] > 2
    assert outcomes["resumed"] == 7


def test_damaged_files_are_answered_in_a_line_and_never_taken_for_whole(folder, tmp_path):
    outcomes = sample(folder, tmp_path, damaged=60)
    assert outcomes.total() == 60
    assert outcomes["refused"] > 20


def test_odd_options_are_answered_in_a_line(folder, tmp_path):
    outcomes = sample(folder, tmp_path, options=150)
    assert outcomes.total() == 150
    assert outcomes["refused"] > 75


def test_a_process_is_ended_at_an_operation_and_within_a_write(folder):
    words = ["data", "prepare", "splits", "--tokens", "words", "--out", "again"]
    for plug, number in ((AtEvent(3), signal.SIGKILL), (AtByte(10), signal.SIGXFSZ)):
        ending = run(words, folder / "whole", plug)
        assert ending.code == -number
    ending = run(words, folder / "whole")
    assert (ending.code, ending.events > 3) == (0, True)
    assert differences(folder / "whole" / "again", folder / "whole" / "corpus") == []


def test_a_changed_bit_is_a_difference_and_a_clock_is_not(folder, tmp_path):
    shutil.copytree(folder / "whole" / "run", tmp_path / "run")
    result = tmp_path / "run" / "result.json"
    result.write_text(result.read_text().replace('"seconds": ', '"seconds": 1'))
    assert differences(tmp_path / "run", folder / "whole" / "run") == []
    weights = next((tmp_path / "run").rglob("model.safetensors"))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    (unlike,) = differences(tmp_path / "run", folder / "whole" / "run")
    assert unlike.endswith("model.safetensors differs")
