"""SECURITY.md: every promise names a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
PROMISES = {line: re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line) for line in TABLE[1:]}


def test_every_promise_is_held_by_tests_that_are_there():
    assert len(PROMISES) > 15
    for promise, tests in PROMISES.items():
        assert tests, promise
        for file, name in tests:
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
