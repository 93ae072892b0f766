"""Learning curves as numbers, and their page in a browser."""

import itertools
from pathlib import Path

import pytest

from rmt.analysis.curve_figure import CHART_SIZE, draw_curves
from rmt.analysis.curve_page import curve_page
from rmt.analysis.curves import MOST_POINTS, CurveSheet, PlottedRun, average, chart
from tests.analysis.pages import Visit, chromium


def test_a_seed_that_has_stopped_is_no_longer_in_the_band():
    curve = average("rmt", [[(1, 4.0), (2, 2.0)], [(1, 2.0)]])
    assert (curve.steps, curve.mean, curve.counts) == ([1, 2], [3.0, 2.0], [2, 1])
    assert (curve.least, curve.most) == ([2.0, 2.0], [4.0, 2.0])


def test_a_long_run_has_as_many_points_as_a_screen_and_keeps_its_mean():
    points = [(step, float(step % 7)) for step in range(1, 50_001)]
    (curve,) = chart("loss", {"rmt": [points]}).curves
    assert MOST_POINTS // 2 < len(curve.steps) <= MOST_POINTS
    assert curve.steps[-1] == 50_000
    assert sum(curve.mean) / len(curve.mean) == pytest.approx(sum(v for _, v in points) / 50_000, rel=1e-3)


def test_runs_of_different_lengths_are_thinned_at_the_same_steps():
    long, short = ([(step, 1.0) for step in range(1, last + 1)] for last in (4000, 2000))
    curve = chart("loss", {"rmt": [long, short]}).curves[0]
    assert set(curve.counts[: len(curve.counts) // 2]) == {2}
    assert set(curve.counts[len(curve.counts) // 2 + 1 :]) == {1}


def test_a_run_that_stops_within_a_part_is_averaged_with_the_others_there():
    long, short = [(step, 1.0) for step in range(1, 3001)], [(step, 3.0) for step in range(1, 2003)]
    (curve,) = chart("loss", {"rmt": [long, short]}).curves
    points = list(zip(curve.steps, curve.mean, curve.counts, strict=True))
    assert {(mean, count) for step, mean, count in points if step <= 2004} == {(2.0, 2)}
    assert {(mean, count) for step, mean, count in points if step > 2004} == {(1.0, 1)}


def test_a_picture_has_one_colour_for_a_curve_and_a_legend_that_fits(monkeypatch):
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr("rmt.analysis.curve_figure.save", lambda figure, path: kept.append(figure))
    labels = [f"transformer_xl, memory {size}, depth full, steps 2000, lr 0.001" for size in range(9)]
    points = [(1, 2.0), (2, 1.0)]
    charts = [
        chart("loss", {label: [points] for label in labels}),
        chart("accuracy", {labels[2]: [points]}),
    ]
    draw_curves(CurveSheet("copy", "a note", charts, []), Path("curves.png"))
    (figure,) = kept
    losses, accuracies = (axis.get_lines() for axis in figure.axes)
    assert [line.get_color() for line in accuracies] == [losses[2].get_color()]
    figure.canvas.draw()
    box, page = figure.legends[0].get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0 < box.y1 <= page.y1
    assert min(axis.get_window_extent().height for axis in figure.axes) > page.height / 3


@pytest.mark.parametrize(("count", "across"), [(1, 1), (3, 3), (4, 2), (5, 3), (8, 3)])
def test_a_picture_of_many_charts_has_rows_of_three_at_most(monkeypatch, count, across):
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr("rmt.analysis.curve_figure.save", lambda figure, path: kept.append(figure))
    charts = [chart(f"border {number}", {"rmt": [[(1, 2.0), (2, 1.0)]]}) for number in range(count)]
    draw_curves(CurveSheet("copy", "a note", charts, []), Path("curves.png"))
    (figure,) = kept
    figure.canvas.draw()
    boxes = [axis.get_window_extent() for axis in figure.axes]
    assert [axis.get_title(loc="left") for axis in figure.axes] == [drawn.quantity for drawn in charts]
    assert len({round(box.x0) for box in boxes}) == across
    assert figure.get_figwidth() == across * CHART_SIZE[0]
    assert all(box.height > CHART_SIZE[1] * figure.dpi / 2 for box in boxes)


@pytest.fixture
def sheet():
    """Two curves, one of them a band, in two charts; a label and a folder that would be markup."""
    losses = {"<b>memory 2": [[(1, 4.0), (2, 2.0)], [(1, 2.0), (2, 1.0)]], "memory 4": [[(1, 3.0), (3, 0.5)]]}
    accuracies = {label: [[(500, 0.25), (2000, 0.5)]] for label in losses}
    runs = [PlottedRun(Path("run"), label, "0", 2, "accuracy 0.5", None) for label in losses]
    charts = [chart("training loss", losses), chart("validation accuracy", accuracies)]
    return CurveSheet("copy: by memory", "a note", charts, runs)


@pytest.fixture(params=[(1280, "light"), (400, "dark")], ids=["desktop", "phone"])
def visit(request, sheet, tmp_path):
    width, scheme = request.param
    with chromium() as browser:
        settings = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        visit = Visit(browser, curve_page(sheet, tmp_path), tmp_path, **settings)
        yield visit
        assert visit.complaints == []
        visit.close()


def test_no_number_of_an_axis_is_cut_or_lies_on_another(visit):
    boxes = visit.page.evaluate(
        """[...document.querySelectorAll(".plot")].map((plot) => [plot, ...plot.querySelectorAll("text")].map(
        (element) => { const { left, right, top, bottom } = element.getBoundingClientRect();
        return [left, right, top, bottom]; }))"""
    )
    for (left, right, top, bottom), *texts in boxes:
        assert len(texts) > 3
        for text in texts:
            assert left <= text[0] < text[1] <= right
            assert top <= text[2] < text[3] <= bottom
        for first, second in itertools.combinations(texts, 2):
            beside = first[1] <= second[0] or second[1] <= first[0]
            assert beside or first[3] <= second[2] or second[3] <= first[2]


def test_the_page_fits_tells_values_and_hides_curves(visit):
    page = visit.page
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert [url for url in visit.requests if not url.startswith(("file:", "data:"))] == []
    first = page.locator(".chart").first
    assert first.locator(".curve").count() == 2
    assert first.locator(".band").count() == 1
    first.locator(".plot").focus()
    page.keyboard.press("Home")
    told = first.locator(".readout").inner_text()
    assert "step 1" in told
    assert "3 (2–4)" in told
    assert "<b>memory 2" in told
    page.locator("#legend button").first.click()
    assert first.locator(".curve").count() == 1
    assert "memory 2" not in first.locator(".readout").inner_text()
    first.locator(".scale").click()
    assert first.locator(".scale").get_attribute("aria-pressed") == "true"
