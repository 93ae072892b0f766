"""Charts: lines that differ look different, means have error bars, axes have round numbers."""

import re
from itertools import pairwise

import pytest

from rmt.experiments.drawing import ChartPoint, Series, chart
from rmt.experiments.figures import curves, figures, over_depth, over_memory, over_minutes
from rmt.experiments.labels import NAMES
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.scales import Axes, ticks
from tests.experiments.report_records import gpu_rows


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    return str(folder)


def keys(figure: str) -> list[tuple[str, str, str]]:
    """Classes, mark and label of each line of the legend."""
    return re.findall(
        r'<span class="([^"]+)"><svg class="key".*?class="mark" d="([^"]+)".*?</svg>([^<]+)', figure
    )


def labels(figure: str) -> list[str]:
    return [re.sub(r", n\s=.*", "", label) for *_, label in keys(figure)]


def bounds(figure: str) -> tuple[str, str]:
    """The first and last number at the vertical axis."""
    numbers = re.findall(r'text-anchor="end">([^<]+)<', figure)
    return numbers[0], numbers[-1]


def test_a_mean_over_runs_has_an_error_bar_and_says_of_how_many():
    points = (ChartPoint(1, 0.5, 0.1, 5), ChartPoint(2, 0.6, 0.0, 1))
    figure = chart(Axes("title", "across", "up"), [Series("RMT", "rmt", points)])
    assert figure.count('class="bar"') == 1
    assert "RMT: 1, 0.5 ± 0.1 (n = 5)" in figure
    assert "RMT, n = 1–5" in figure.replace("\N{NO-BREAK SPACE}", " ")


def test_an_error_bar_ends_where_the_axis_does():
    points = (ChartPoint(1, 0.95, 0.2, 3),)
    whole = chart(Axes("title", "across", "up", span=(0, 1)), [Series("RMT", "rmt", points)])
    (top,) = re.findall(r'class="bar" d="M[\d.]+,([\d.]+)V', whole)
    assert float(top) == min(float(y) for y in re.findall(r'class="grid".*?y1="([\d.]+)"', whole))


@pytest.mark.parametrize("make", [over_memory, over_depth])
def test_no_two_lines_of_figure_5_have_the_same_look(text, make):
    for figure in make(gpu_rows("figure-5", text)):
        looks = [key[:2] for key in keys(figure)]
        assert len(set(looks)) == len(looks)
        assert len(set(labels(figure))) == len(looks)
        lines = [look for look, _ in looks if look.startswith("rmt")]
        assert len(lines) == len(set(lines)) == 3


def test_a_model_with_memory_and_cache_stands_at_both_together(text):
    (figure,) = over_memory(gpu_rows("figure-5", text))
    stored = re.findall(r"<title>Transformer-XL \+ RMT[^:<]*: ([\d.]+),", figure)
    assert stored == ["210"] * 4


def test_points_at_one_place_do_not_hide_each_other(text):
    (figure,) = over_memory(gpu_rows("figure-5", text))
    drawn = re.findall(r'translate\(([\d.]+),[\d.]+\)"><title>Transformer-XL \+ RMT', figure)
    places = sorted(map(float, drawn))
    assert all(second - first > 3 for first, second in pairwise(places))


def test_the_two_caches_over_minutes_have_names_and_looks_of_their_own(text):
    (figure,) = over_minutes(gpu_rows("table-4", text))
    assert {"Transformer-XL, cache 10", "Transformer-XL, cache 200"} <= set(labels(figure))
    assert len({key[:2] for key in keys(figure)}) == 5


def test_minutes_begin_at_zero_and_have_round_numbers(text):
    (figure,) = over_minutes(gpu_rows("table-4", text))
    axis = re.findall(r'text-anchor="middle">([\d.,]+)</text>', figure)
    assert axis == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


@pytest.mark.parametrize("span", [(0.0, 1.0), (0.0, 14.9), (0.0, 400_000.0), (1.75, 2.0)])
def test_ticks_are_few_and_even(span):
    places = list(ticks(span))
    assert 3 <= len(places) <= 6
    steps = [second - first for first, second in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * len(steps))


@pytest.mark.parametrize("name", ["figure-3", "figure-4", "figure-8"])
def test_all_charts_of_accuracy_reach_from_zero_to_one(name):
    rows = gpu_rows(name)
    for drawn in (figures(name, rows), curves(rows)):
        charts = drawn.split("</figure>")[:-1]
        assert charts
        assert {bounds(figure) for figure in charts} == {("0", "1")}


def test_learning_curves_are_named_by_model_and_what_differs():
    drawn = curves(gpu_rows("figure-8"))
    assert {"RMT", "Transformer-XL"} <= set(labels(drawn)) <= set(NAMES.values())
    both = curves(gpu_rows("figure-3"))
    assert "RMT, memory 4" in labels(both)
    assert not re.search(r"rmt-\d", re.sub(r"<[^>]+>", " ", both))


def test_a_line_of_the_paper_has_the_mark_of_ours_and_its_own_stroke():
    drawn = figures("figure-8", gpu_rows("figure-8"))
    for figure in drawn.split("</figure>")[:-1]:
        marks = {}
        for css, mark, _ in keys(figure):
            marks.setdefault(css.split()[0], set()).add(mark)
        assert all(len(shapes) == 1 for shapes in marks.values())
        assert any("dotted" in css for css, *_ in keys(figure))


def test_the_papers_other_rows_on_the_same_text_are_in_its_chart(text):
    (figure,) = over_memory(gpu_rows("table-4", text))
    assert "Transformer-XL, paper: 75, 1.196" in figure
    assert "RMT, depth 0, paper" in figure
