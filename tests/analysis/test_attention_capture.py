"""Captured attention is the attention the model computes with, and its spans lie where they are said to."""

import gc
import weakref

import pytest
import torch
from torch import Tensor

from rmt import SegmentModel
from rmt.analysis.capture import SegmentAttention, capture, capture_mean, columns, passing, rows
from rmt.core.spans import Spans
from rmt.errors import ConfigError
from tests.laws.models import HEADS, KINDS, LAYERS, assert_same, build, configuration, over, random_tokens

LENGTH, TOTAL = 4, 11  # segments of 4, 4 and 3 tokens


def attended(model: SegmentModel, tokens: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What every layer's heads put out in an ordinary pass (N, H, Q, E), and the values it is made of."""
    found: list[tuple[Tensor, Tensor]] = []
    hooks = []
    for layer in model.backbone.layers:
        attention = layer.attention
        hooks.append(attention.out.register_forward_pre_hook(lambda _, given: outputs.append(given[0][0])))
        hooks.append(attention.register_forward_hook(lambda *call: values.append(call[2][1].value[0])))
    state = model.initial_state(1)
    with torch.no_grad():
        for segment in tokens[None].split(LENGTH, dim=1):
            outputs: list[Tensor] = []
            values: list[Tensor] = []
            state = model(segment, state).state
            split = [output.unflatten(-1, (HEADS, -1)).transpose(0, 1) for output in outputs]
            found.append((torch.stack(split), torch.stack(values)))
    for hook in hooks:
        hook.remove()
    return found


@over()
def test_the_captured_weights_are_those_an_ordinary_pass_attends_with(config):
    model, tokens = build(config), random_tokens(TOTAL)
    captured = capture(model, tokens, LENGTH)
    for segment, (output, value) in zip(captured, attended(model, tokens), strict=True):
        assert_same(segment.weights @ value, output, tolerance=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_one_and_masked_cells_are_exactly_zero(kind):
    model = build(configuration(kind))
    state = model.initial_state(1)
    tokens = random_tokens(TOTAL)
    for segment in capture(model, tokens, LENGTH):
        visible = segment.spans.axis(state.cached, None, model.config.memory.sees_cache).mask
        assert_same(segment.weights.sum(-1), torch.ones(segment.weights.shape[:-1]))
        hidden = segment.weights[~visible.expand_as(segment.weights)]
        assert torch.equal(hidden, torch.zeros_like(hidden))
        assert (segment.weights[visible.expand_as(segment.weights)] > 0).all()
        state = model(segment.tokens[None], state).state


@pytest.mark.parametrize("kind", KINDS)
def test_spans_line_up_in_whole_and_ragged_segments(kind):
    model = build(configuration(kind))
    captured = capture(model, random_tokens(TOTAL), LENGTH)
    assert [segment.spans.tokens for segment in captured] == [4, 4, 3]
    assert torch.equal(torch.cat([segment.tokens for segment in captured]), random_tokens(TOTAL))
    for segment in captured:
        cache, read, tokens, write = segment.spans
        memory = model.memory
        assert (cache, read, write) == (model.config.cache.rows, memory.read_size, memory.write_size)
        assert segment.weights.shape == (LAYERS, HEADS, read + tokens + write, cache + read + tokens + write)
        for query in ("read", "tokens", "write"):
            parts = [segment.block(query, key) for key in Spans._fields]
            whole = segment.weights[:, :, rows(segment.spans, query)]
            assert torch.equal(torch.cat(parts, dim=-1), whole)


def test_a_block_is_what_its_name_says():
    spans = Spans(cache=2, read=1, tokens=3, write=1)
    weights = torch.arange(35.0).view(1, 1, 5, 7)
    segment = SegmentAttention(weights, spans, torch.zeros(3), torch.zeros(3))
    assert segment.block("write", "cache")[0, 0].tolist() == [[28, 29]]
    assert segment.block("write", "tokens")[0, 0].tolist() == [[31, 32, 33]]
    assert segment.block("tokens", "read")[0, 0].tolist() == [[9], [16], [23]]
    assert segment.block("read", "write")[0, 0].tolist() == [[6]]
    assert (columns(spans, "tokens"), rows(spans, "tokens")) == (slice(3, 6), slice(1, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_model_without_capture(kind):
    model, tokens = build(configuration(kind)), random_tokens(TOTAL)
    state, expected = model.initial_state(1), []
    for segment in tokens[None].split(LENGTH, dim=1):
        output = model(segment, state)
        expected.append(output.logits[0].argmax(-1))
        state = output.state
    captured = capture(model, tokens, LENGTH)
    assert torch.equal(torch.cat([segment.predicted for segment in captured]), torch.cat(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_is_the_mean_of_single_captures(kind):
    model, tokens = build(configuration(kind)), random_tokens(3, TOTAL)
    alone = [capture(model, row, LENGTH) for row in tokens]
    for number, segment in enumerate(capture_mean(model, tokens, LENGTH)):
        assert_same(segment.weights, torch.stack([one[number].weights for one in alone]).mean(0))
        assert torch.equal(segment.tokens, alone[0][number].tokens)


def test_nothing_is_kept_when_not_asked():
    model = build(configuration("transformer_xl_rmt"))
    assert model(random_tokens(1, LENGTH), model.initial_state(1)).attention == ()
    seen = []
    for part in passing(model, random_tokens(1, TOTAL), LENGTH):
        assert not part.weights.requires_grad
        gc.collect()
        assert [kept() is None for kept in seen] == [True] * len(seen)
        seen.append(weakref.ref(part.weights))
        del part
    assert len(seen) == 3


def test_anything_with_the_interface_of_a_cell_can_be_captured():
    class Echo:
        """A model of one head that looks at itself, with a read block only, as an encoder has."""

        def initial_state(self, batch):
            return 0

        def spans(self, tokens):
            return Spans(0, 2, tokens, 0)

        def __call__(self, tokens, state, *, attention):
            weights = torch.eye(2 + tokens.shape[1]).expand(len(tokens), 1, -1, -1)
            logits = torch.nn.functional.one_hot(tokens, 5)
            output = type("Output", (), {"attention": (weights,), "logits": logits, "state": state + 1})
            return output

    first, second = capture(Echo(), torch.tensor([1, 2, 3]), 2)
    assert first.block("tokens", "tokens").tolist() == [[[[1, 0], [0, 1]]]]
    assert second.block("read", "tokens").shape == (1, 1, 2, 1)
    assert torch.equal(second.predicted, torch.tensor([3]))


@pytest.mark.parametrize(
    ("tokens", "length", "said"),
    [
        (torch.zeros(2, 3, dtype=torch.long), 4, "(2, 3)"),
        (torch.zeros(0, dtype=torch.long), 4, "at least 1"),
        (torch.zeros(3, dtype=torch.long), 0, "length=0"),
    ],
    ids=["a-batch", "no-tokens", "no-length"],
)
def test_what_is_no_sequence_is_refused(tokens, length, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(").replace(")", r"\)")):
        capture(build(configuration("rmt")), tokens, length)
