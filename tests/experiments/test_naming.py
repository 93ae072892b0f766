"""Default names of run folders: different runs have different ones, and what is there goes on."""

import itertools
import re
import shlex
import shutil
from pathlib import Path

import pytest

from rmt.cli.train import COMMAND
from rmt.experiments.naming import default_folder
from rmt.experiments.recipe import resolve
from rmt.train.names import MOST_CHARACTERS
from tests.cli.command import TRAIN, rmt

SWEEPS = (
    "--memory 4",
    "--memory 2",
    "--model transformer_xl",
    "--model transformer_xl --cache 4",
    "--depth 1",
    "--depth 2",
    "--depth 1 --schedule chunked",
    "--depth 1 --schedule sliding",
    "--depth 1 --schedule sliding --bptt.replay_from latest",
    "--lr 0.01",
    "--model.layers 4",
    "--model.norm post",
    "--recipe paper",
    "--recipe modern-1",
    "--size paper",
    "--steps 77",
    "--batch 7",
    "--task.options symbols=4",
    "--train.memory_loss 0.1",
    "--precision 64-true",
)


def name_of(words: str, ending: str = "-0") -> str:
    return default_folder(resolve(COMMAND.collect(["copy", *shlex.split(words)]).settings), ending).name


def test_no_two_runs_of_a_sweep_share_a_folder():
    names = [name_of(words) for words in ("", *SWEEPS)]
    same = [pair for pair in itertools.combinations(names, 2) if pair[0] == pair[1]]
    assert same == []


@pytest.mark.parametrize("words", ["", "--target 0.99 --device cpu", "--memory 8", "--train.save_every 7"])
def test_a_run_with_nothing_special_has_the_plain_name(words):
    assert name_of(words) == "copy-8-3-rmt-modern-0"


def test_a_name_says_what_is_special():
    assert name_of("--memory 4 --depth 1") == "copy-8-3-rmt-modern-memory4-depth1-0"


def test_a_name_is_no_longer_than_a_file_system_allows_and_still_its_own():
    many = " ".join(f"--task.options symbols=4 --curriculum.over length --curriculum.start {n}" for n in [2])
    many += " --optimizer.weight_decay 0.123456789 --rate.schedule linear --optimizer.beta1 0.87654321"
    many += " --optimizer.momentum 0.7654321 --optimizer.clip 0.654321 --model.dropout 0.123456789"
    names = {name_of(f"{many} --train.accumulate {parts}") for parts in (1, 2)}
    assert len(names) == 2
    assert all(MOST_CHARACTERS < len(name) < 200 for name in names)


def test_a_run_that_lies_under_the_former_name_goes_on_there(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    former = Path("runs/tests.train.runs.Echo-3-3-rmt-modern-0")
    assert rmt(capsys, f"{TRAIN} --quiet --out {former}").code == 0
    assert rmt(capsys, f"{TRAIN} --quiet").out.startswith(f"already finished: {former}\n")
    other = rmt(capsys, f"{TRAIN} --quiet --memory 5").out
    assert re.match(r"finished: runs/tests\.train\.runs\.Echo-3-3-rmt-modern-\S+-memory5-", other)
    shutil.move(former, "runs/tests.train.runs.Echo-3-3-rmt-modern/seed-0")
    seeds = rmt(capsys, f"{TRAIN} --quiet --seeds 2").out
    assert seeds.startswith("finished: runs/tests.train.runs.Echo-3-3-rmt-modern\n")
