"""A wrapped language model is a segment model: the project's own loops drive it."""

import pytest
import torch

from rmt import unroll
from rmt.core.bptt import bptt
from rmt.errors import ConfigError
from rmt.hf import SegmentView
from tests.hf.zoo import of_kind, remembering, texts

DECODERS = pytest.mark.parametrize("name", of_kind("decoder"))


@DECODERS
def test_unrolling_its_segments_is_reading_the_text(name):
    model = remembering(name, "ForCausalLM")
    view, ids = SegmentView(model), texts(name, 13, 13)["input_ids"]
    outputs = list(unroll(view, ids.split(5, dim=1), view.initial_state(2)))
    whole = model(input_ids=ids, return_state=True)
    logits = torch.cat([output.logits for output in outputs], dim=1)
    torch.testing.assert_close(logits, whole.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs[-1].state.memory, whole.state.memory, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("depth", [0, 1, "full"])
def test_the_training_loops_bptt_reaches_as_far_as_it_says(depth):
    model = remembering("gpt2", "ForCausalLM")
    view, segments = SegmentView(model), texts("gpt2", 15)["input_ids"].split(5, dim=1)
    losses = list(
        bptt(view, segments, view.initial_state(1), lambda index, output: output.logits.pow(2).mean(), depth)
    )
    (gradient,) = torch.autograd.grad(losses[-1], [model.memory.tokens.weight], allow_unused=True)
    assert (gradient is not None) == (depth == "full")


def test_a_row_of_no_tokens_keeps_its_state():
    view = SegmentView(remembering("llama", "ForCausalLM"))
    before = view(texts("llama", 5, 5)["input_ids"], view.initial_state(2)).state
    after = view(texts("llama", 4, 4)["input_ids"], before, lengths=torch.tensor([0, 3])).state
    assert torch.equal(after.memory[0], before.memory[0])
    assert not torch.equal(after.memory[1], before.memory[1])


def test_what_is_not_one_segment_or_no_language_model_is_refused():
    view = SegmentView(remembering("gpt2", "ForCausalLM"))
    with pytest.raises(ConfigError, match="segment of 6 tokens is longer than segment_length=5"):
        view(torch.ones(1, 6, dtype=torch.long), view.initial_state(1))
    with pytest.raises(ConfigError, match="RMTBertModel gives no logits of a next token"):
        SegmentView(remembering("bert"))
