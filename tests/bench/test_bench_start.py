"""Commands timed from outside: cold caches first, a new folder each time, failures in a line."""

import sys
from pathlib import Path

import pytest

from rmt.bench import start
from rmt.bench.start import CACHES, start_rows
from rmt.errors import RMTError
from rmt.train.log import SOURCE

# leaves a result as rmt train does; its first update is quicker where its caches hold something
TRAINS = """
import json, os, pathlib, sys
cache = pathlib.Path(os.environ["TRITON_CACHE_DIR"])
warm = cache.exists()
cache.mkdir(parents=True, exist_ok=True)
assert list(pathlib.Path(".").iterdir()) == []
run = pathlib.Path("runs/copy")
run.mkdir(parents=True)
(run / "result.json").write_text(json.dumps({"first_update_seconds": 0.25 if warm else 0.5}))
import rmt
pathlib.Path(sys.argv[1]).write_text(rmt.__file__)
"""


def test_the_first_start_finds_empty_caches_and_the_others_what_it_left(tmp_path):
    note = tmp_path / "note"
    rows = list(start_rows("start-copy", [sys.executable, "-c", TRAINS, str(note)]))
    assert [row.way for row in rows] == [
        "first update, cold",
        "whole command, cold",
        "first update, warm",
        "whole command, warm",
    ]
    assert {row.configuration for row in rows} == {"start-copy"}
    cold, whole, warm, _ = rows
    assert (cold.step.median, warm.step.median) == (0.5, 0.25)
    assert whole.step.median > 0
    assert note.read_text() == str(SOURCE / "__init__.py")  # the source that is measured is this one


def test_each_start_is_repeated_as_often_as_its_label_says(monkeypatch):
    times = iter(range(1, 10))
    monkeypatch.setattr(start, "timed", lambda command, caches: start.Start(next(times), 10.0))
    cold, _, warm, _ = start_rows("start-copy", ["true"])
    assert cold.step == (1, 1, 1)
    assert warm.step == (3, 2, 4)  # the median, the least and the most of three


def test_nobody_elses_caches_are_used(tmp_path, monkeypatch):
    for name in CACHES:
        monkeypatch.setenv(name, "/somewhere")
    surroundings = start.surroundings(tmp_path)
    assert all(Path(surroundings[name]).parent == tmp_path for name in CACHES)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit('rmt: steps=0 is wrong')", ["exited with 1", "rmt: steps=0 is wrong"]),
        ("print('nothing to do')", ["exited with 0", "left 0 results", "nothing to do"]),
    ],
    ids=["failed", "without-result"],
)
def test_a_command_that_fails_is_one_line(code, words):
    with pytest.raises(RMTError) as caught:
        list(start_rows("start-copy", [sys.executable, "-c", code]))
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words)
