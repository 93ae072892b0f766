"""The page holds what was captured, needs nothing else, and takes no string for more than a string."""

import base64
import hashlib
import json
import re
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from rmt.analysis.capture import capture
from rmt.analysis.explorer import SCRIPTS, pack, server
from rmt.analysis.operations import operations
from rmt.analysis.pages import assemble, harmless
from rmt.errors import ConfigError
from tests.analysis.pages import LENGTH, WORDS, data_of, example, model_of, page_of
from tests.laws.models import KINDS

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!--<script>",
    "]]>",
    "'\"`${alert(1)}\\",
    "{{script}}",
    "\u2028\u2029",
    "&lt;b&gt;",
    "\ud800",
    "\u202eabc",
    "\x00\x1b[31m",
    "javascript:alert(1)",
]


class Elements(HTMLParser):
    """Every element of a page, with what it carries."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_holds_what_was_captured(kind):
    model = model_of(kind)
    data = data_of(page_of(model))
    assert (data["layers"], data["heads"]) == (2, 2)
    for number, told in enumerate(data["examples"]):
        captured = capture(model, example(number).tokens, LENGTH)
        assert len(told["segments"]) == len(captured) == 3
        for segment, expected in zip(told["segments"], captured, strict=True):
            assert segment["spans"] == list(expected.spans)
            steps = np.frombuffer(base64.b64decode(segment["weights"]), dtype="<u2")
            weights = torch.from_numpy(steps.astype("float64") / 65535).view_as(expected.weights)
            assert (weights - expected.weights).abs().max() <= 0.5 / 65535 + 1e-12
            assert segment["tokens"] == [WORDS[token] for token in expected.tokens]
            assert segment["predicted"] == [WORDS[token] for token in expected.predicted]
            assert len(segment["cache"]) == expected.spans.cache
            for name, scores in operations(expected).items():
                found = torch.tensor(segment["scores"][name])
                assert (found - torch.stack(scores, -1).flatten(0, 1)).abs().max() <= 0.0005 + 1e-9


@pytest.mark.parametrize("kind", ["transformer_xl", "transformer_xl_rmt"])
def test_cache_labels_are_the_tokens_that_were_cached(kind):
    first, second, third = data_of(page_of(model_of(kind)))["examples"][0]["segments"]
    assert first["cache"] == [""] * 5
    assert second["cache"] == ["", *first["tokens"]]
    assert third["cache"] == [first["tokens"][-1], *second["tokens"]]


def test_cache_labels_name_memory_where_that_is_cached_too():
    first, second, _ = data_of(page_of(model_of("cache_of_all_positions")))["examples"][0]["segments"]
    assert second["cache"] == [*first["tokens"][-2:], "write 1", "write 2", "write 3"]


def test_targets_and_questions_are_cut_like_the_tokens():
    asked = example(0)
    segments = data_of(page_of(model_of()))["examples"][0]["segments"]
    assert [word for segment in segments for word in segment["targets"]] == [
        WORDS[id] for id in asked.targets
    ]
    assert [one for segment in segments for one in segment["wanted"]] == asked.wanted.int().tolist()


def test_the_page_needs_nothing_but_itself():
    page = page_of(model_of())
    for tag, carried in Elements(page).found:
        assert "src" not in carried
        if tag == "link":
            assert carried["href"] == "data:,"
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 200_000


def test_only_this_style_and_this_program_may_work():
    page = page_of(model_of())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    blocks = re.findall(r"<(style|script)>(.*?)</(?:style|script)>", page, re.DOTALL)
    assert [name for name, _ in blocks] == ["style", "script"]
    for name, text in blocks:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("string", HOSTILE)
def test_a_string_is_data_wherever_it_comes_from(string):
    data = {"title": string, "facts": [string], "examples": [{"name": string, "tokens": [string]}]}
    page = assemble("explorer", SCRIPTS, data)
    assert data_of(page) == data
    plain = assemble("explorer", SCRIPTS, {"title": "x"})
    assert Elements(page).found == Elements(plain).found
    assert page.count("<") == plain.count("<")
    page.encode("utf-8")


def test_hostile_words_reach_the_page_as_words():
    data = data_of(page_of(model_of(), words=HOSTILE, title="<b>run</b>"))
    shown = {word for segment in data["examples"][0]["segments"] for word in segment["tokens"]}
    assert shown <= {word if word.strip() else "␣" for word in HOSTILE}
    assert data["title"] == "<b>run</b>"


def test_the_program_never_reads_text_as_markup():
    script = re.findall(r"<script>(.*?)</script>", page_of(model_of()), re.DOTALL)[0]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert way not in script


def test_harmless_json_is_the_same_json():
    assert json.loads(harmless(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE


def test_packing_keeps_zero_and_one():
    weights = torch.tensor([0.0, 1.0, 0.5]).view(1, 1, 1, 3)
    assert np.frombuffer(base64.b64decode(pack(weights)), dtype="<u2").tolist() == [0, 65535, 32768]


def test_the_server_serves_the_page_to_this_machine_and_nothing_else():
    with server("<p>ü</p>") as running:
        assert running.server_address[0] == "127.0.0.1"
        threading.Thread(target=running.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{running.server_address[1]}"
        with urllib.request.urlopen(address) as answer:
            assert answer.read().decode() == "<p>ü</p>"
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}/../../etc/passwd")
        assert refused.value.code == 404
        refused.value.close()
        with pytest.raises(ConfigError, match="cannot be opened"):
            server("", running.server_address[1])
        running.shutdown()


def test_a_port_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="port=70000 must be 0 to 65535"):
        server("", 70000)
