"""Free-running generation: the model's own outputs are its next inputs, and nothing else leaks in."""

import pytest
import torch
from torch import Tensor

from rmt import SegmentModel
from rmt.evaluate.generate import (
    EncodedSource,
    generate,
    generate_both_at_once,
    generate_both_in_turn,
    inputs_from_model,
    pieces,
)
from tests.laws.models import KINDS, PRESETS, VOCABULARY, build, configuration, random_tokens

LENGTH, TOTAL = 4, 11  # segments of 4, 4 and 3 tokens
ROWS, PLACE = 12, torch.arange(TOTAL)
MASKS = {
    "all": torch.ones(ROWS, TOTAL, dtype=torch.bool),
    "none": torch.zeros(ROWS, TOTAL, dtype=torch.bool),
    "an-answer-at-the-end": (PLACE >= 5).expand(ROWS, -1),
    "other-places-in-every-row": torch.stack([PLACE >= 6, PLACE % 3 == 1, PLACE == 3]).repeat(ROWS // 3, 1),
}


@pytest.mark.covering
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("true_borders", [False, True], ids=["strict", "true-borders"])
@pytest.mark.parametrize("kind", PRESETS)
def test_generation_is_a_whole_forward_pass_for_every_token(kind, true_borders, mask):
    model, tokens = model_of(kind), random_tokens(ROWS, TOTAL)
    found = generate(model, tokens, MASKS[mask], LENGTH, true_borders)
    assert torch.equal(found, naive(model, tokens, MASKS[mask], true_borders))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in PRESETS])
def test_generation_is_a_whole_forward_pass_for_every_token_of_variants_too(kind):
    model, tokens, mask = model_of(kind), random_tokens(ROWS, TOTAL), MASKS["other-places-in-every-row"]
    assert torch.equal(generate(model, tokens, mask, LENGTH), naive(model, tokens, mask))


@pytest.mark.covering
@pytest.mark.parametrize("mask", ["all", "an-answer-at-the-end", "other-places-in-every-row"])
@pytest.mark.parametrize("kind", PRESETS)
def test_true_tokens_at_generated_places_change_nothing(kind, mask):
    model, tokens = model_of(kind), random_tokens(ROWS, TOTAL)
    model_made = torch.nn.functional.pad(MASKS[mask][:, :-1], (1, 0))
    corrupted = torch.where(model_made, (tokens + 1) % VOCABULARY, tokens)
    before, after = (generate(model, one, MASKS[mask], LENGTH) for one in (tokens, corrupted))
    assert torch.equal(before, after)


@pytest.mark.parametrize("kind", PRESETS)
def test_with_true_borders_the_first_token_of_a_segment_matters_and_no_other(kind):
    model, tokens, mask = model_of(kind), random_tokens(ROWS, TOTAL), MASKS["all"]
    border = PLACE % LENGTH == 0
    before = generate(model, tokens, mask, LENGTH, true_borders=True)
    for where, matters in ((~border, False), (border & (PLACE > 0), True)):
        corrupted = torch.where(where, (tokens + 1) % VOCABULARY, tokens)
        after = generate(model, corrupted, mask, LENGTH, true_borders=True)
        assert torch.equal(before, after) is not matters
        assert torch.equal(before[:, :LENGTH], after[:, :LENGTH])


@pytest.mark.covering
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("generate_both", [generate_both_at_once, generate_both_in_turn])
@pytest.mark.parametrize("kind", PRESETS)
def test_both_ways_together_are_each_way_for_all_rows(kind, generate_both, mask):
    model, tokens = model_of(kind), rows_right_and_wrong(model_of(kind), MASKS[mask])
    start = EncodedSource(tokens[:, :0], model.initial_state(ROWS))
    both = generate_both(model, tokens, inputs_from_model(MASKS[mask]), LENGTH, start)
    for found, true_borders in zip(both, (False, True), strict=True):
        assert torch.equal(found, generate(model, tokens, MASKS[mask], LENGTH, true_borders))


def test_on_a_cpu_rows_that_are_right_at_all_borders_are_generated_once():
    model, rows = model_of("rmt"), set()
    tokens, start = rows_right_and_wrong(model, MASKS["all"]), model.initial_state(ROWS)
    model.embedding.register_forward_hook(lambda module, inputs, output: rows.add(len(output)))
    start = EncodedSource(tokens[:, :0], start)
    generate_both_in_turn(model, tokens, inputs_from_model(MASKS["all"]), LENGTH, start)
    assert rows == {ROWS, ROWS // 2}


def rows_right_and_wrong(model: SegmentModel, generated: Tensor) -> Tensor:
    """Random rows (B, T); every other one has what the model predicts, but one token inside a segment."""
    tokens = random_tokens(ROWS, TOTAL)
    predicted = generate(model, tokens, generated, LENGTH)[:, :-1]
    right = torch.cat([tokens[:, :1], torch.where(generated[:, :-1], predicted, tokens[:, 1:])], dim=1)
    right[:, 6] = (right[:, 6] + generated[:, 5].long()) % VOCABULARY
    wrong = (right + (PLACE == 8)) % VOCABULARY
    return torch.where((torch.arange(ROWS) % 2 == 0)[:, None], right, wrong)


def test_what_is_given_matters():
    model, tokens, mask = model_of("rmt"), random_tokens(ROWS, TOTAL), MASKS["an-answer-at-the-end"]
    corrupted = torch.where(PLACE < LENGTH, (tokens + 1) % VOCABULARY, tokens)
    assert not torch.equal(*(generate(model, one, mask, LENGTH)[:, 5:] for one in (tokens, corrupted)))


def test_the_given_tokens_are_left_as_they_are():
    model, tokens = model_of("rmt"), random_tokens(ROWS, TOTAL)
    before = tokens.clone()
    generate(model, tokens, MASKS["all"], LENGTH)
    assert torch.equal(tokens, before)


def test_generating_nothing_is_teacher_forcing_in_one_step_per_segment():
    model, steps = model_of("transformer_xl_rmt"), []
    tokens = random_tokens(ROWS, TOTAL)
    model.embedding.register_forward_hook(lambda module, inputs, output: steps.append(output.shape[1]))
    found = generate(model, tokens, MASKS["none"], LENGTH)
    assert steps == [4, 4, 3]
    state, expected = model.initial_state(ROWS), []
    for segment in tokens.split(LENGTH, dim=1):
        output = model(segment, state)
        state = output.state
        expected.append(output.logits.argmax(-1))
    assert torch.equal(found, torch.cat(expected, dim=1))


def test_a_segment_is_cut_only_before_tokens_that_wait_for_a_prediction():
    waits = [False, False, True, False, True, True]
    assert pieces(waits, 0, 6) == [(0, 2), (2, 4), (4, 5), (5, 6)]
    assert pieces(waits, 2, 4) == [(2, 4)]
    assert pieces([False] * 6, 1, 5) == [(1, 5)]


def model_of(kind: str) -> SegmentModel:
    return build(configuration(kind))


@torch.no_grad()
def naive(model: SegmentModel, tokens: Tensor, generated: Tensor, true_borders: bool = False) -> Tensor:
    """For each token, everything so far again, segment by segment and from the initial state."""
    inputs, predictions = tokens[:, :1], []
    for place in range(TOTAL):
        state = model.initial_state(len(tokens))
        for segment in inputs.split(LENGTH, dim=1):
            output = model(segment, state)
            state = output.state
        predictions.append(output.logits[:, -1].argmax(-1))
        if place + 1 < TOTAL:
            own = generated[:, place] & (not true_borders or (place + 1) % LENGTH != 0)
            following = torch.where(own, predictions[-1], tokens[:, place + 1])
            inputs = torch.cat([inputs, following[:, None]], dim=1)
    return torch.stack(predictions, dim=1)
