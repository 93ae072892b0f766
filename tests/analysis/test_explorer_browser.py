"""The explorer in a real browser: it draws, it moves, it tells the right numbers, it runs nothing else."""

from dataclasses import replace

import pytest

from rmt.analysis.capture import capture
from rmt.analysis.explorer import explore
from tests.analysis.pages import LENGTH, WORDS, Visit, chromium, data_of, example, model_of, page_of
from tests.analysis.test_explorer_page import HOSTILE
from tests.laws.models import build, configuration

# the contrast of a chip's text and ground where a row of one weight is looked at, the least of all colours
CONTRAST = """(weight) => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const card = parse(getComputedStyle(document.querySelector(".row")).backgroundColor);
  const contrasts = ["write", "read", "rewrite", "mix", "cache", "other"].map((operation) => {
    const span = spanOf(current(), "read", Float32Array.of(weight), operation);
    byId("row").replaceChildren(span);
    const [chip, text] = [span.querySelector("li"), span.querySelector("li > span")];
    const shade = Number(chip.style.getPropertyValue("--weight"));
    const colour = parse(getComputedStyle(chip).color);
    const ground = colour.map((part, at) => shade * part + (1 - shade) * card[at]);
    const pair = [light(ground), light(parse(getComputedStyle(text).color))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  });
  return Math.min(...contrasts);
}"""
PHONE = {"viewport": {"width": 400, "height": 800}, "has_touch": True, "device_scale_factor": 2}


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def visit(browser, tmp_path):
    """Opens pages; whatever a page complains about or loads from elsewhere fails the test."""
    opened = []

    def opening(html: str, **settings) -> Visit:
        opened.append(Visit(browser, html, tmp_path, **settings))
        return opened[-1]

    yield opening
    for one in opened:
        assert one.complaints == []
        assert [url for url in one.requests if not url.startswith(("file:", "data:"))] == []
        one.close()


@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("baseline", "memory_transformer", "rmt")),
        pytest.param("transformer_xl", marks=pytest.mark.slow),
        "transformer_xl_rmt",  # it has all that the others have
    ],
)
def test_hovering_tells_the_right_number_for_every_model(visit, kind):
    model = model_of(kind)
    there = visit(page_of(model))
    there.page.select_option("#segment", "2")  # the ragged one
    segment = capture(model, example(0).tokens, LENGTH)[2]
    rows, keys = segment.weights.shape[-2:]
    for layer, head in ((0, 1), (1, 0)):
        there.page.select_option("#layer", str(layer))
        there.page.select_option("#head", str(head))
        for row, column in ((0, 0), (rows - 1, keys - 1), (rows // 2, keys // 3)):
            there.hover(row, column)
            chosen = there.chosen()
            assert (chosen["row"], chosen["column"]) == (row, column)
            assert there.text("#readout strong") == f"{float(segment.weights[layer, head, row, column]):.3f}"


def test_the_readout_names_row_and_column(visit):
    there = visit(page_of(model_of()))
    there.page.select_option("#segment", "1")
    told = data_of(page_of(model_of()))["examples"][0]["segments"]
    there.hover(7, 5)  # rows: 3 read, 4 tokens, 3 write; columns: 5 cache, 3 read, 4 tokens, 3 write
    assert there.text("#readout").startswith("write 1 looks at read 1: ")
    there.hover(3, 8)
    assert there.text("#readout").startswith(f"token 1 ‘{told[1]['tokens'][0]}’ looks at token 1 ‘")
    there.hover(3, 4)
    assert f"looks at cache ‘{told[0]['tokens'][-1]}’: " in there.text("#readout")
    assert there.text("#row-title") == f"Where token 1 ‘{told[1]['tokens'][0]}’ looks"


def test_the_chosen_row_sums_to_one_over_its_spans(visit):
    there = visit(page_of(model_of()))
    there.hover(8, 6)
    shares = [int(text.split()[0]) for text in there.page.locator("#row .number").all_inner_texts()]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(100, abs=2)


@pytest.mark.parametrize("picker", ["example", "segment", "layer", "head"])
def test_every_picker_changes_the_picture(visit, picker):
    there = visit(page_of(model_of()))
    before, at = there.picture(), there.chosen()[picker]
    there.page.select_option(f"#{picker}", str(1 - min(at, 1)))
    assert there.chosen()[picker] == 1 - min(at, 1)
    assert there.picture() != before
    there.page.select_option(f"#{picker}", str(at))
    assert there.picture() == before


def test_buttons_lead_to_segments_and_heads(visit):
    there = visit(page_of(model_of()))
    there.page.locator("#timeline button").nth(2).click()
    assert there.chosen()["segment"] == 2
    assert there.page.locator("#timeline button").nth(2).get_attribute("aria-current") == "true"
    there.page.locator("#thumbnails button").nth(3).click()
    assert (there.chosen()["layer"], there.chosen()["head"]) == (1, 1)
    assert there.text("#map-title") == "Segment 3, layer 2, head 2"
    there.page.locator("#thumbnails button").nth(2).click()
    assert there.page.locator("#thumbnails button[aria-pressed=true]").all_inner_texts() == ["layer 2 · 1"]
    assert there.page.locator("#scores tr[aria-current=true] th").all_inner_texts() == ["layer 2, head 1"]
    assert (there.page.input_value("#layer"), there.page.input_value("#head")) == ("1", "0")
    there.page.locator("#scores tbody button").first.click()
    assert there.text("#map-title") == "Segment 3, layer 1, head 1"
    finding = data_of(page_of(model_of()))["examples"][0]["findings"][1]["to"]
    there.page.locator("#findings button").nth(1).click()
    assert there.chosen() | finding == there.chosen()


def test_keys_do_what_the_page_says(visit):
    there = visit(page_of(model_of()))
    there.page.select_option("#segment", "0")
    there.page.locator("h1").click()
    at = there.chosen()
    there.page.keyboard.press("ArrowRight")
    there.page.keyboard.press("ArrowRight")
    there.page.keyboard.press("ArrowRight")
    assert there.chosen()["segment"] == 2  # the last
    there.page.keyboard.press("ArrowLeft")
    there.page.keyboard.press("l")
    there.page.keyboard.press("h")
    there.page.keyboard.press("e")
    found = there.chosen()
    assert (found["segment"], found["layer"], found["head"], found["example"]) == (
        1,
        1 - at["layer"],
        1 - at["head"],
        1,
    )
    there.page.locator("#map").focus()
    before = there.chosen()
    there.page.keyboard.press("ArrowUp")
    there.page.keyboard.press("ArrowRight")
    moved = there.chosen()
    assert (moved["row"], moved["column"]) == (max(before["row"] - 1, 0), before["column"] + 1)
    assert moved["segment"] == before["segment"]


def test_a_finger_chooses_a_cell(visit):
    there = visit(page_of(model_of("rmt")), **PHONE)
    there.page.locator("#map").scroll_into_view_if_needed()
    x, y = there.middle(6, 3)
    there.page.locator("#map").tap(position={"x": x, "y": y})
    assert (there.chosen()["row"], there.chosen()["column"]) == (6, 3)


@pytest.mark.parametrize("motion", [pytest.param("no-preference", marks=pytest.mark.slow), "reduce"])
def test_playing_goes_through_all_segments_and_stops(visit, motion):
    there = visit(page_of(model_of("rmt")), reduced_motion=motion)
    there.page.clock.install(time=0)
    there.page.clock.pause_at(60_000)
    there.page.select_option("#segment", "0")
    there.page.locator("#play").click()
    assert there.page.locator("#play").get_attribute("aria-pressed") == "true"
    seen = []
    for _ in range(400):
        there.page.clock.run_for(100)
        seen.append((there.chosen()["segment"], there.chosen()["row"]))
        if there.page.locator("#play").get_attribute("aria-pressed") == "false":
            break
    assert seen == sorted(seen)
    assert {segment for segment, _ in seen} == {0, 1, 2}
    assert there.page.locator("#play").get_attribute("aria-pressed") == "false"
    if motion == "no-preference":
        assert len({row for segment, row in seen if segment == 1}) > 3  # it is watched row by row


def test_the_space_bar_plays_and_pauses(visit):
    there = visit(page_of(model_of()))
    there.page.locator("h1").click()
    for pressed in ("true", "false"):
        there.page.keyboard.press("Space")
        assert there.page.locator("#play").get_attribute("aria-pressed") == pressed


def test_a_label_loses_its_brackets_before_its_letters(visit):
    page = visit(page_of(model_of("rmt"))).page
    for text, room, shown in (("[CLS]", 3, "CLS"), ("<s>", 1, "s"), ("mouse", 2, "mo"), ("[", 0, "[")):
        assert page.evaluate(f"shortened({text!r}, (part) => part.length <= {room})") == shown


@pytest.mark.slow
def test_dark_and_light_are_different_pictures_and_can_be_chosen(visit):
    light, dark = (visit(page_of(model_of()), color_scheme=scheme) for scheme in ("light", "dark"))
    background = "getComputedStyle(document.body).backgroundColor"
    assert light.page.evaluate(background) != dark.page.evaluate(background)
    assert light.picture() != dark.picture()
    expected = dark.picture()
    light.page.locator("#theme").click()
    light.page.locator("#theme").click()  # as the system, light, dark
    light.page.mouse.move(0, 0)
    assert light.page.evaluate(background) == dark.page.evaluate(background)
    assert light.picture() == expected


@pytest.mark.parametrize("width", [320, 400, 768])
def test_a_narrow_screen_needs_no_sideways_scrolling(visit, width):
    there = visit(
        page_of(model_of(), words=[12 * letter for letter in "abcdefghijkl"]),
        **PHONE | {"viewport": {"width": width, "height": 800}},
    )
    assert there.page.evaluate("document.documentElement.scrollWidth") <= width
    assert there.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 15


def test_predictions_are_marked_right_or_wrong(visit):
    there = visit(page_of(model_of()))
    there.page.select_option("#segment", "1")
    segment = data_of(page_of(model_of()))["examples"][0]["segments"][1]
    right = sum(one == other for one, other in zip(segment["predicted"], segment["targets"], strict=True))
    assert there.text("#answers-hint") == f"{right} of 4 right in this segment."
    assert there.text("#answers").count("✓") == right
    assert there.text("#answers").count("✗") == 4 - right
    there.page.select_option("#segment", "0")
    assert there.text("#answers-hint") == "Nothing is asked of the model in this segment."


def test_of_many_heads_those_of_the_chosen_layer_are_shown(visit):
    model = build(replace(configuration("rmt"), layers=4, heads=7))
    there = visit(page_of(model))
    there.page.select_option("#layer", "2")
    assert there.text("#heads-title") == "Heads of layer 3 of 4 in this segment"
    assert there.page.locator("#thumbnails button").all_inner_texts()[::6] == ["layer 3 · 1", "layer 3 · 7"]
    assert there.page.locator("#scores tbody th").all_inner_texts()[::6] == [
        "layer 3, head 1",
        "layer 3, head 7",
    ]
    assert there.text("#scores-hint").startswith("The table is over the heads of layer 3, segment ")


def test_predictions_are_hidden_where_nothing_is_asked_of_a_model(visit):
    unasked = example()._replace(wanted=example().wanted & False)
    there = visit(explore(model_of(), [unasked], LENGTH, WORDS, "a run", ["tiny"]))
    assert there.page.locator("#answers").is_hidden()
    assert there.page.locator("#thumbnails").is_visible()


@pytest.mark.slow
def test_what_a_chip_says_can_be_read_on_its_colour(visit):
    for scheme in ("light", "dark"):
        there = visit(page_of(model_of("rmt")), color_scheme=scheme)
        for number in range(101):
            assert there.page.evaluate(CONTRAST, number / 100) > 4.5, (scheme, number)


def test_everything_that_can_be_used_has_a_name(visit):
    there = visit(page_of(model_of()))
    nameless = there.page.evaluate(
        """[...document.querySelectorAll("button, select, canvas#map")].filter((element) =>
        !(element.getAttribute("aria-label") || element.labels?.[0]?.textContent || element.textContent)
        .trim()).map((element) => element.outerHTML)"""
    )
    assert nameless == []


def test_hostile_strings_are_shown_and_not_run(visit):
    there = visit(page_of(model_of(), words=HOSTILE, title=HOSTILE[0]))
    assert HOSTILE[0] in there.text("#run")
    for segment in "012":
        there.page.select_option("#segment", segment)
        there.hover(4, 9)
    assert there.page.evaluate("document.querySelectorAll('img, script:not([type])').length") == 1
    assert there.page.evaluate("document.title").startswith(HOSTILE[0])
