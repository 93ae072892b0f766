"""The command `rmt`, called as a user calls it, in this process."""

from typing import NamedTuple

import pytest
import yaml

from rmt.cli.front import names_of
from rmt.cli.main import main
from rmt.config import from_dict
from rmt.train.config import RunConfig

# A run of a second: `rmt train TASK` and these.
TINY = (
    "--length 3 --segments 3 --memory 2 --batch 4 --steps 4 --device cpu --model.layers 1 --model.heads 1 "
    "--model.head_width 4 --model.width 8 --model.inner_width 8 --train.evaluate_every 2 "
    "--train.evaluate_samples 8 --train.log_every 1"
)
REPEATED = ("--task.options", "--where")  # flags that take several values
TRAIN = f"train tests.train.runs:Echo {TINY}"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def varied(command: str) -> list[str]:
    """The words of a command; of a flag that has two values the last counts, so that tests can vary it."""
    words, kept = command.split(), list[str]()
    while words:
        flag = words.pop(0)
        has_value = flag.startswith("--") and flag not in REPEATED and has_words(words)
        if has_value and flag in words and has_words(words[words.index(flag) + 1 :]):
            words.pop(0)
        else:
            kept.append(flag)
    return kept


def has_words(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("--")


def rmt(capsys: pytest.CaptureFixture[str], command: str) -> Answer:
    """The exit code of `rmt COMMAND` and what it printed."""
    capsys.readouterr()
    try:
        code = main(varied(command))
    except SystemExit as exit:
        code = exit.code
    return Answer(code, *capsys.readouterr())


def printed(capsys: pytest.CaptureFixture[str], command: str) -> RunConfig:
    """The configuration of a run that a command prints."""
    code, out, err = rmt(capsys, f"{command} --print_config")
    assert (code, err) == (0, "")
    settings = yaml.safe_load(out)
    return from_dict(RunConfig, {name: settings[name] for name in names_of(RunConfig)})
