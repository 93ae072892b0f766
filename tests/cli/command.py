"""The command `rmt`, called as a user calls it, in this process."""

from typing import NamedTuple

import pytest

from rmt.cli.main import main

# A run of a second: `rmt train TASK` and these.
TINY = (
    "--length 3 --segments 3 --memory 2 --batch 4 --steps 4 --device cpu --model.layers 1 --model.heads 1 "
    "--model.head_width 4 --model.width 8 --model.inner_width 8 --train.evaluate_every 2 "
    "--train.evaluate_samples 8 --train.log_every 1"
)
TRAIN = f"train tests.train.runs:Echo {TINY}"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def rmt(capsys: pytest.CaptureFixture[str], command: str) -> Answer:
    """The exit code of `rmt COMMAND` and what it printed."""
    capsys.readouterr()
    try:
        code = main(command.split())
    except SystemExit as exit:
        code = exit.code
    return Answer(code, *capsys.readouterr())
