"""SECURITY.md: every promise names a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))


def test_every_promise_is_held_by_a_test():
    assert len(NAMED) > 15
    for file, name in NAMED:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
