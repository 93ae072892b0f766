"""The demo ends with a line that leads to a page, and the page is there."""

import pytest

from rmt.tasks.copy import Copy
from tests.analysis.pages import data_of
from tests.cli.command import rmt


@pytest.fixture
def short(monkeypatch):
    """Few test sequences: what is measured is not what is tested here."""
    monkeypatch.setattr(Copy, "sizes", {"train": 100, "valid": 8, "test": 8})


def test_the_last_line_points_to_the_explorer(capsys, tmp_path, short):
    code, out, err = rmt(capsys, "demo --steps 1 --quiet")
    assert (code, err) == (0, "")
    last = out.splitlines()[-1]
    assert last == "explore the memory in your browser: demo/explorer.html"
    data = data_of((tmp_path / "demo" / "explorer.html").read_text(encoding="utf-8"))
    assert (data["title"], len(data["examples"]), data["facts"][0]) == ("rmt demo", 4, "rmt")
    assert [segment["spans"] for segment in data["examples"][0]["segments"]] == [[0, 8, 8, 8]] * 3
