"""Operations are named rightly where the attention is made by hand and the answer is known."""

import math

import pytest
import torch
from torch import Tensor

from rmt.analysis.capture import HeadIndex, SegmentAttention, columns, rows
from rmt.analysis.operations import (
    OPERATIONS,
    best,
    composition,
    compression,
    diagonal,
    findings,
    lines,
    normalised,
    operations,
    scores,
)
from rmt.core.spans import Spans
from tests.laws.models import assert_same

SPANS = Spans(cache=6, read=6, tokens=6, write=6)
IDENTITY = torch.eye(6, dtype=torch.float64)
REVERSAL = IDENTITY.flip(-1)
UNIFORM = torch.full((6, 6), 1 / 6, dtype=torch.float64)


def segment(*heads: dict[tuple[str, str], Tensor], spans: Spans = SPANS) -> SegmentAttention:
    """One layer whose heads look as told, block by block."""
    weights = torch.zeros(1, len(heads), spans.keys - spans.cache, spans.keys)
    for number, blocks in enumerate(heads):
        for (query, key), block in blocks.items():
            weights[0, number, rows(spans, query), columns(spans, key)] = block
    return SegmentAttention(weights, spans, torch.zeros(spans.tokens), torch.zeros(spans.tokens))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("order", ["straight", "reversed", "mixed"])
def test_a_head_that_does_one_thing_is_found_and_named(operation, order):
    block = {"straight": IDENTITY, "reversed": REVERSAL, "mixed": UNIFORM}[order]
    idle = {("read", "read"): UNIFORM, ("write", "write"): UNIFORM}
    busy = {OPERATIONS[operation]: block}
    found = best(findings([segment(idle, idle), segment(idle, busy)]), operation)
    assert found is not None
    assert (found.operation, found.segment, found.head, found.order) == (operation, 1, HeadIndex(0, 1), order)
    assert found.mass == pytest.approx(1)
    for name in OPERATIONS:
        other = scores(segment(idle, busy), name)
        assert float(other.mass[0, 1]) == pytest.approx(1.0 if name == operation else 0.0)
        if name != operation:
            assert float(other.straight[0, 1]) == float(other.reversed[0, 1]) == 0.0


def test_mass_is_the_share_of_the_rows_that_goes_there():
    block = 0.25 * IDENTITY
    found = scores(segment({("write", "tokens"): block, ("write", "read"): 0.75 * UNIFORM}), "write")
    assert float(found.mass) == pytest.approx(0.25)
    assert float(found.straight) == pytest.approx(1)  # order is judged within the block


@pytest.mark.parametrize("shift", [-2, -1, 0, 1, 3])
def test_a_shifted_diagonal_counts_by_the_rows_it_passes(shift):
    line = torch.diag(torch.ones(6 - abs(shift)), shift)
    assert float(diagonal(line)) == pytest.approx((6 - abs(shift)) / 6)
    assert float(diagonal(line)) > float(diagonal(line.flip(-1)))


@pytest.mark.parametrize(("slots", "tokens"), [(3, 12), (12, 3), (4, 6), (5, 7), (1, 6)])
def test_a_thick_diagonal_fits_a_block_that_is_not_square(slots, tokens):
    fine = max(slots, tokens)
    block = torch.zeros(slots, tokens)
    for cell in range(fine):
        block[cell * slots // fine, cell * tokens // fine] = 1
    assert float(diagonal(normalised(block))) == pytest.approx(1)


def test_even_attention_has_no_order_and_no_direction():
    assert float(diagonal(UNIFORM)) == pytest.approx(1 / 6)
    assert float(diagonal(UNIFORM.flip(-1))) == pytest.approx(1 / 6)


def test_lines_of_a_square_are_its_diagonals():
    assert [line.tolist() for line in lines(3, 3)] == [[6], [3, 7], [0, 4, 8], [1, 5], [2]]


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (5, 1), (3, 8), (8, 3), (6, 6)])
def test_the_best_line_is_that_of_a_search_through_all_of_them(rows, columns):
    share = normalised(torch.rand(2, rows, columns, generator=torch.Generator().manual_seed(0)))
    fine, best_sums = max(rows, columns), []
    for block in share:
        sums = []
        for offset in range(1 - fine, fine):
            places = [(place, place + offset) for place in range(fine) if 0 <= place + offset < fine]
            cells = {(i * rows // fine, j * columns // fine) for i, j in places}
            sums.append(sum(float(block[cell]) for cell in cells))
        best_sums.append(max(sums) / rows)
    assert diagonal(share).tolist() == pytest.approx(best_sums)


def test_a_permutation_of_slots_has_no_order_but_its_composition_has():
    order = torch.tensor([2, 5, 0, 3, 1, 4])
    writing = segment({("write", "tokens"): IDENTITY[order]})
    for reading, straight, backwards in ((IDENTITY, 1, 1 / 6), (REVERSAL, 1 / 6, 1)):
        back = segment({("tokens", "read"): reading @ IDENTITY[order].T})
        assert max(float(scores(writing, "write").straight), float(scores(back, "read").straight)) < 0.5
        whole = composition(writing, back)
        assert_same(whole.weights, reading)
        assert (whole.straight, whole.reversed) == (pytest.approx(straight), pytest.approx(backwards))


def test_a_composition_picks_the_pair_that_belongs_together():
    idle = {("write", "tokens"): UNIFORM, ("tokens", "read"): UNIFORM}
    writing = segment(idle, {("write", "tokens"): IDENTITY}, idle)
    reading = segment(idle, idle, {("tokens", "read"): REVERSAL})
    whole = composition(writing, reading)
    assert (whole.writer, whole.reader) == (HeadIndex(0, 1), HeadIndex(0, 2))


def test_a_composition_goes_through_what_the_middle_did_to_the_slots():
    moved = IDENTITY.roll(2, 0)
    whole = composition(
        segment({("write", "tokens"): IDENTITY}), segment({("tokens", "read"): moved.T}), between=0.3 * moved
    )
    assert_same(whole.weights, IDENTITY)


def test_compression_is_tokens_per_slot():
    three_each = torch.eye(2).repeat_interleave(3, dim=1) / 3  # 2 slots, 6 tokens
    assert float(compression(three_each)) == pytest.approx(3)
    assert float(compression(IDENTITY)) == pytest.approx(1)
    assert float(compression(torch.ones(6, 1) * torch.tensor([0, 1, 0, 0, 0, 0]))) == pytest.approx(1 / 6)
    assert float(compression(torch.zeros(6, 6))) == 0
    halves = torch.tensor([[0.9, 0.1]])
    expected = math.exp(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))
    assert float(compression(halves)) == pytest.approx(expected)


def test_an_operation_without_its_spans_does_not_exist():
    plain = segment({}, spans=Spans(0, 0, 4, 0))
    assert list(operations(plain)) == ["mix"]
    assert best(findings([plain]), "write") is None
    cached = segment({}, spans=Spans(2, 0, 4, 0))
    assert list(operations(cached)) == ["cache", "mix"]


def test_a_row_that_never_looks_there_stays_zero():
    share = normalised(torch.tensor([[0.2, 0.2], [0.0, 0.0]]))
    assert_same(share, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))
