"""Explorer pages of tiny models, and a browser to look at them."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rmt import SegmentModel
from rmt.analysis.examples import Example
from rmt.analysis.explorer import explore
from tests.laws.models import VOCABULARY, build, configuration, random_tokens

LENGTH, TOTAL = 4, 11  # segments of 4, 4 and 3 tokens
WORDS = [chr(ord("a") + number) for number in range(VOCABULARY)]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def example(number: int = 1, total: int = TOTAL) -> Example:
    """A sequence whose second half was asked for."""
    tokens = random_tokens(total + 1, seed=number)
    wanted = random_tokens(total, seed=0) >= 0
    wanted[:LENGTH] = False
    return Example(f"example {number}", tokens[:-1], tokens[1:], wanted)


def page_of(model: SegmentModel, words: list[str] = WORDS, title: str = "a run", count: int = 2) -> str:
    return explore(model, [example(number) for number in range(count)], LENGTH, words, title, ["tiny"])


def model_of(kind: str = "transformer_xl_rmt") -> SegmentModel:
    return build(configuration(kind))


def data_of(page: str) -> dict[str, Any]:
    """What the page's program will read."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def browser_path() -> str:
    """Where Chromium is; skips the test where there is none, saying what is missing."""
    pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    named = os.environ.get("RMT_CHROMIUM", "")
    found = named or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        pytest.skip("needs a browser: apt-get install chromium, or name one in RMT_CHROMIUM")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium without a network."""
    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """One page in a browser: everything it complains about or asks the network for is kept."""

    def __init__(self, browser: Any, html: str, folder: Path, **settings: Any):
        file = folder / "explorer.html"
        file.write_text(html, encoding="utf-8")
        settings = {"viewport": {"width": 1280, "height": 900}} | settings
        self.context = browser.new_context(**settings)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self.refuse)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def refuse(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def picture(self) -> str:
        """The map as it is drawn, as text to compare."""
        return self.page.evaluate("document.getElementById('map').toDataURL()")

    def chosen(self) -> dict[str, int]:
        return self.page.evaluate("({...place})")

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """The middle of a cell of the map, relative to the map."""
        left, top, cell = self.page.evaluate("[map.left, map.top, map.cell]")
        return left + (column + 0.5) * cell, top + (row + 0.5) * cell

    def hover(self, row: int, column: int) -> None:
        x, y = self.middle(row, column)
        self.page.locator("#map").hover(position={"x": x, "y": y})

    def close(self) -> None:
        self.context.close()
