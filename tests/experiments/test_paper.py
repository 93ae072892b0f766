"""Published numbers: a mean is of runs, and says how long each of them was."""

import pytest

from rmt.experiments.paper import FIGURE_3, PUBLISHED, Published, PublishedCell

MODELS = {"baseline", "memory_transformer", "transformer_xl", "rmt"}


@pytest.mark.parametrize("cell", PUBLISHED, ids=lambda cell: "-".join(map(str, cell)))
def test_a_published_number_is_a_mean_of_runs_of_known_length(cell):
    published = PUBLISHED[cell]
    assert published.runs >= 1
    assert published.runs > 1 or published.deviation == 0
    assert all(runs >= 1 and 100_000 <= steps <= 1_000_000 for steps, runs in published.budgets.items())


def test_every_position_of_figure_3_has_the_four_models():
    positions = {(cell.task, cell.segments) for cell in FIGURE_3}
    assert len(positions) == 9
    for task, segments in positions:
        assert {cell.model for cell in FIGURE_3 if (cell.task, cell.segments) == (task, segments)} == MODELS


def test_runs_of_different_length_are_not_said_to_be_of_one():
    mixed = {cell: published for cell, published in PUBLISHED.items() if len(published.budgets) > 1}
    assert {cell: str(published) for cell, published in mixed.items()} == {
        PublishedCell("copy-24", 9, "transformer_xl", 8): "0.261 ± 0.110 (5 runs, 1 × 400k, 4 × 900k steps)",
        PublishedCell("retrieval", 2, "rmt", 5): "0.990 ± 0.018 (4 runs, 1 × 700k, 3 × 1000k steps)",
    }


def test_a_single_run_has_no_deviation():
    assert str(Published(0.496, 0.0, {1_000_000: 1})) == "0.496 (1 run, 1000k steps)"
