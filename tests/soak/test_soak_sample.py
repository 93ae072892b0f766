"""A sample of what `make soak` does: whatever ends a command, hinders it or is damaged, nothing is wrong."""

import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.commands import all_commands
from tests.soak.__main__ import soak
from tests.soak.attempts import attempt, judged
from tests.soak.children import run
from tests.soak.compared import differences
from tests.soak.odd_options import is_endless
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
    outcomes = sample(folder, tmp_path, kills=3)
    assert outcomes["killed"] >= 3
    assert outcomes["resumed"] > 1


def test_full_disks_removed_folders_and_other_hostile_systems_are_answered_in_a_line(folder, tmp_path):
    outcomes = sample(folder, tmp_path, system=7)
    assert outcomes["refused"] > 2
    assert outcomes["resumed"] == 7


def test_damaged_files_are_answered_in_a_line_and_never_taken_for_whole(folder, tmp_path):
    outcomes = sample(folder, tmp_path, damaged=25)
    assert outcomes.total() == 25
    assert outcomes["refused"] > 8


def test_odd_options_are_answered_in_a_line(folder, tmp_path):
    outcomes = sample(folder, tmp_path, options=150)
    assert outcomes.total() == 150
    assert outcomes["refused"] > 75


@pytest.mark.parametrize(
    ("line", "is_long"),
    [
        ("generate --tokens=2147483648", True),
        ("generate --tokens=7", False),
        ("generate --tokens=nan", False),
        ("train --depth=2147483648", True),
        ("train --depth=full", False),
        ("demo --print_config=off", True),
        ("demo --print_config=1.5", False),
        ("reproduce --dry_run=off", True),
        ("train --length=9223372036854775808", False),
    ],
)
def test_what_is_valid_and_never_ends_is_no_odd_option(line, is_long):
    command, option = line.split()
    spelling, _, value = option.partition("=")
    assert is_endless(all_commands()[command].grammar().flags[spelling], spelling, value) == is_long


def test_a_text_of_a_model_may_not_command_a_terminal(folder, monkeypatch):
    monkeypatch.chdir(folder / "whole")
    line = "generate book-run --prompt so --tokens 1000 --temperature 1000 --device cpu --seed 1"
    result = attempt(line.split())
    assert result.outcome == "done"
    assert "\\x1b" in result.output
    assert judged(0, "\x1b", "")[0] == "untidy"


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
