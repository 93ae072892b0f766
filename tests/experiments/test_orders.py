"""The order of models at a small size beside that at a large one."""

import pytest

from rmt.experiments.comparison import rows_of
from rmt.experiments.made_text import prepare_made_text
from rmt.experiments.orders import order_lines, orders
from rmt.experiments.page import page
from rmt.experiments.suites import Order, plan
from rmt.experiments.tables import markdown_report
from tests.experiments.records import BITS, REACHED, made_record


def records(scale: str, reached: dict[str, float]) -> list:
    cells = plan(Order(name="figure-3", scale=scale)).cells
    return [made_record(cell, [reached[cell.settings["preset"]]] * 3) for cell in cells]


def both(**other: float) -> list:
    """Scale tiny as the paper says, and scale gpu with other values of some models."""
    return records("tiny", REACHED) + records("gpu", REACHED | other)


def test_orders_that_agree_are_counted_and_no_tie_is_an_agreement():
    compared = orders(rows_of(both()))
    named = {(order.position, *(row.model for row in order.small)): order.outcome for order in compared}
    assert named["copy in 3 segments", "transformer_xl", "rmt"] is True
    assert named["copy in 3 segments", "baseline", "memory_transformer"] is None
    assert False not in named.values()


def test_models_on_two_texts_of_one_size_have_no_order(tmp_path):
    prepare_made_text(tmp_path / "made")
    cells = [cell for scale in ("tiny", "gpu") for cell in plan(Order(name="table-4", scale=scale)).cells]
    told = [made_record(cell, [BITS[cell.settings["preset"]]] * 3, str(tmp_path / "made")) for cell in cells]
    assert orders(rows_of(told))
    small = [record for record in told if record["config"]["model"]["layers"] == 2]
    for record, text in zip(small, "ab" * len(small), strict=False):
        for run in record["runs"]:
            run["fingerprint"] = text * 16
    assert not orders(rows_of(told))


@pytest.mark.parametrize("render", [page, markdown_report])
def test_a_reversed_order_is_named_with_its_numbers(render):
    shown = render(both(transformer_xl=1.0, rmt=0.7))
    small = "2 layers × 64: 0.600 ± 0.000 (3 seeds) against 0.990 ± 0.000 (3 seeds)"
    large = "4 layers × 128: 1.000 ± 0.000 (3 seeds) against 0.700 ± 0.000 (3 seeds)"
    for where in ("copy in 3 segments", "copy in 6 segments", "reverse in 4 segments"):
        assert f"reversed: figure-3, {where}: Transformer-XL and RMT: {small}; {large}" in shown
    assert "3 are reversed" in shown


def test_what_only_one_size_has_is_not_compared():
    positions = {order.position for order in orders(rows_of(both()))}
    assert positions == {
        "copy in 3 segments",
        "copy in 6 segments",
        "reverse in 4 segments",
    }


def test_one_size_has_no_orders():
    assert order_lines(rows_of(records("gpu", REACHED))) == []
    assert "Order of the models" not in page(records("gpu", REACHED))
