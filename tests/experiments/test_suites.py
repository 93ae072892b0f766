"""The plans: every cell can be resolved, models of a comparison share all but what they are."""

from collections import defaultdict

import pytest

from rmt.errors import ConfigError
from rmt.experiments.cells import PlannedCell
from rmt.experiments.made_text import made_text, prepare_made_text
from rmt.experiments.paper import exhibit_rows
from rmt.experiments.recipe import merge, resolve
from rmt.experiments.suites import EXHIBITS, Order, plan

SCALES = ("tiny", "gpu", "paper")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text") / "made"
    prepare_made_text(folder)
    return str(folder)


def cells(scale: str, name: str = "all", **fields) -> list[PlannedCell]:
    return plan(Order(name=name, scale=scale, **fields)).cells


def shared(cell: PlannedCell) -> str:
    """The settings of a cell without those that make it another model."""
    settings = merge(cell.settings, {})
    settings.pop("preset")
    settings.pop("bptt", None)
    settings["model"] = {
        key: value for key, value in settings.get("model", {}).items() if key not in ("memory", "cache")
    }
    settings["train"] = {key: value for key, value in settings["train"].items() if key != "memory_loss"}
    return str(sorted(settings.items()))


@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_resolves(scale, text):
    for cell in cells(scale):
        data = {"task": {"data": text}} if cell.settings["task"]["name"] == "text" else {}
        config = resolve(merge(cell.settings, data))
        assert config.train.target is None, "no side stops early"


@pytest.mark.parametrize("scale", SCALES)
def test_the_names_of_cells_are_folders_of_their_own(scale):
    names = [cell.name for cell in cells(scale)]
    assert len(set(names)) == len(names)
    assert all(
        len(name) < 80 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_") for name in names
    )


@pytest.mark.parametrize("scale", ["tiny", "gpu"])
def test_models_of_a_comparison_have_the_same_budget_the_same_rates_and_the_same_trials(scale):
    positions = defaultdict(list)
    for cell in cells(scale):
        if (
            "depth-0" in cell.name and cell.settings["task"]["name"] != "text"
        ) or "recipe-paper" in cell.name:
            continue  # beside the comparison, with budgets that they name
        task = cell.settings["task"]
        for exhibit in cell.exhibits:
            positions[exhibit, str(task)].append(cell)
    for key, members in positions.items():
        assert len({shared(cell) for cell in members}) == 1, key
        assert len({(cell.rates, cell.trial_steps) for cell in members}) == 1, key
        assert len(members[0].rates) == 3


@pytest.mark.parametrize("scale", ["tiny", "gpu"])
def test_rmt_and_transformer_xl_have_the_same_seeds(scale):
    seeds = defaultdict(set)
    for cell in cells(scale):
        is_compared = cell.settings["preset"] in ("rmt", "transformer_xl") and cell.rates
        if is_compared and not cell.trial_steps and cell.settings["task"].get("segments", 2) > 1:
            seeds[cell.exhibits, str(cell.settings["task"])].add(cell.seeds)
    assert all(len(counts) == 1 for counts in seeds.values())


def test_figure_3_at_scale_gpu_is_every_published_position_with_five_seeds():
    planned = {cell.name: cell for cell in cells("gpu", "figure-3")}
    for row in exhibit_rows("figure-3"):
        size = "" if row.model == "baseline" else f"-{row.memory or row.cache}"
        cell = planned[f"{row.task}-{row.segments}-{row.model}{size}"]
        if row.model in ("rmt", "transformer_xl"):
            assert cell.seeds == 5
        assert resolve(cell.settings).train.steps == 3000


@pytest.mark.parametrize("name", [name for name in EXHIBITS if name != "table-3"])
def test_scale_paper_trains_every_published_row_with_its_own_budget(name, text):
    planned = cells("paper", name)
    rows = [row for row in exhibit_rows(name) if not row.note.startswith("as the paper of")]
    budgets = {(row.steps, row.batch) for row in rows}
    made = {(cell.settings["train"]["steps"], cell.settings["train"]["batch"]) for cell in planned}
    assert made <= budgets
    assert all(cell.settings["recipe"] == "paper" and not cell.rates for cell in planned)
    assert len(planned) >= len({(row.cell, row.depth, row.segment_length, row.steps) for row in rows}) - 1


def test_seeds_and_steps_can_be_others():
    for cell in cells("gpu", "figure-3", seeds=7, steps=50):
        assert cell.seeds == 7
        assert cell.settings["train"]["steps"] == 50
        assert cell.trial_steps == 0, "a trial is a run then"


def test_a_cell_of_two_figures_is_trained_once():
    both = next(cell for cell in cells("tiny") if cell.name == "copy-4-3-rmt-4")
    assert both.exhibits == ("figure-3", "figure-4")


def test_cells_of_a_text_of_ones_own_are_named_after_it():
    for scale in ("tiny", "gpu"):
        assert all(cell.name.startswith("book-") for cell in cells(scale, "table-4", data="my/book.txt"))


def test_table_3_takes_backbones_and_documents():
    planned = cells("gpu", "table-3", backbones=("models/bert", "roberta"), data="articles")
    assert [cell.name for cell in planned[:3]] == [
        f"hyperpartisan-bert-{arm}" for arm in ("1", "4", "4-mean")
    ]
    assert [cell.settings["memory"] for cell in planned] == [0, 10, 0] * 2
    assert {(cell.rates, cell.seeds) for cell in planned} == {((1e-5, 5e-5, 1e-4), 5)}
    papers = cells("paper", "table-3", backbones=("roberta",), data="articles")
    assert [cell.settings["segments"] for cell in papers] == [1, 2, 3, 4, 4]


def test_what_is_left_out_is_said():
    ordered = plan(Order(name="all", scale="tiny"))
    assert set(ordered.left_out) == {"table-1", "table-3"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "figure-33"}, "unknown figure or table 'figure-33'; did you mean 'figure-3'?"),
        ({"name": "table-1"}, "table-1 has nothing at scale tiny: quadratic equations are not learned"),
        ({"name": "figure-3", "data": "enwik8"}, "data=enwik8 has no effect on figure-3"),
        ({"name": "all", "data": "enwik8"}, "name that instead of all"),
        ({"name": "figure-3", "backbones": ("bert",)}, "backbones=bert have no effect on figure-3"),
    ],
)
def test_an_order_that_cannot_be_met_is_an_error(fields, message):
    with pytest.raises(ConfigError, match=message):
        plan(Order(scale="tiny", **fields))


def test_in_the_made_text_every_word_of_a_page_is_followed_by_the_digit_of_the_page():
    pages = made_text().splitlines()
    assert len(pages) > 1000
    assert all(len({sign for sign in page if sign.isdigit()}) == 1 for page in pages)
    assert made_text() == made_text()
