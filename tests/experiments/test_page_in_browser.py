"""The page of a report in a real browser: nothing is cut off, on a wide screen and on a telephone."""

import pytest

from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.page import page
from tests.analysis.pages import Visit, chromium
from tests.experiments.paper_records import paper_records
from tests.experiments.records import with_maps
from tests.experiments.report_records import gpu_records

OVERFLOWING = """() => [...document.querySelectorAll('.wide, figure, .legend, p, nav')]
    .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.outerHTML.slice(0, 200))"""
OUTSIDE = """() => [...document.querySelectorAll('td.ours, td.difference, td.how, summary, li, figcaption')]
    .filter(cell => cell.getClientRects().length)
    .filter(cell => cell.getBoundingClientRect().right > window.innerWidth)
    .map(cell => cell.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    mapped = map(with_maps, gpu_records("all", str(folder)))
    return page([*mapped, *paper_records(str(folder))])


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.mark.parametrize("width", [1280, 970, 800, 400, 320])
def test_nothing_is_cut_off_closed_or_open(html, browser, tmp_path, width):
    visit = Visit(browser, html, tmp_path, viewport={"width": width, "height": 900})
    for _ in range(2):
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(OVERFLOWING) == []
        assert visit.page.evaluate(OUTSIDE) == []
        visit.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")


def test_the_page_asks_for_nothing_and_complains_of_nothing(html, browser, tmp_path):
    visit = Visit(browser, html, tmp_path)
    assert visit.complaints == []
    assert len(visit.requests) == 1


def test_a_link_of_a_claim_leads_to_its_row(html, browser, tmp_path):
    visit = Visit(browser, html, tmp_path)
    visit.page.locator("#claims + .wide summary").first.click()
    visit.page.locator("#claims + .wide li a").first.click()
    assert (
        visit.page.evaluate("document.querySelector('tr:target td.ours').getBoundingClientRect().top") < 900
    )
