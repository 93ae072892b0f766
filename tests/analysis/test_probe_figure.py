"""The picture of probes has a panel per run and quantity, and a line per border."""

import pytest

from rmt.analysis import probe_figure
from rmt.analysis.probe_figure import draw_probes

PROBES = [
    {"step": 0, "memory_gradient": [1e-3, 2e-3], "slots_apart": [0.9, 0.8], "inputs_apart": [0.01, 0.02]},
    {"step": 5, "loss": 1.0},
    {"step": 10, "memory_gradient": [1e-5, 2e-4], "slots_apart": [0.4, 0.1], "inputs_apart": [0.02, 0.01]},
]


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_every_border_of_every_run_is_drawn(tmp_path, monkeypatch, kind):
    drawn = []
    monkeypatch.setattr(probe_figure, "save", lambda figure, path: drawn.append(figure))
    draw_probes({"dies": PROBES, "lives": PROBES}, tmp_path / f"probes.{kind}")
    panels = drawn[0].axes
    assert len(panels) == 6
    assert [list(line.get_xdata()) for line in panels[1].lines] == [[0, 10], [0, 10]]
    assert [list(line.get_ydata()) for line in panels[1].lines] == [[0.9, 0.4], [0.8, 0.1]]
    assert (panels[0].get_yscale(), panels[1].get_yscale()) == ("log", "linear")
    monkeypatch.undo()
    draw_probes({"dies": PROBES}, tmp_path / f"probes.{kind}")
    assert (tmp_path / f"probes.{kind}").stat().st_size > 1000
