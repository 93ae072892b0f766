"""Rows that do not have a segment are not computed, and nothing else changes by that."""

import pytest
import torch

import rmt.hf.segments as segments
from rmt.hf import add_memory
from rmt.hf.backbone import SegmentBackbone
from tests.hf.zoo import answer, plain, remembering, texts

TOKENS = (17, 3, 9)  # of text: 4, 1 and 2 segments of 5
FAMILIES = ("bert", "deberta-v2", "modernbert", "gpt2", "llama", "t5", "bart")


def model_of(name: str, **options: object) -> torch.nn.Module:
    model = remembering(name, **options)
    return model.double()


def inputs_of(model: torch.nn.Module, name: str) -> dict[str, torch.Tensor]:
    edges = model.settings.prefix + model.settings.suffix
    return texts(name, *(count + edges for count in TOKENS))


def everything(model: torch.nn.Module, inputs: dict[str, torch.Tensor], *, all_layers: bool) -> tuple:
    """The tensors that come of a call, and the gradient of each weight."""
    model.zero_grad()
    output = answer(model, inputs, return_state=True, output_hidden_states=all_layers)
    states = [output.last_hidden_state, *output.state.flat()]
    states += output.get("hidden_states") or output.get("encoder_hidden_states") or ()
    sum(state.double().square().sum() for state in states if state.requires_grad).backward()
    gradients = {
        name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
    }
    return [state.detach() for state in states], gradients


def assert_same(model, inputs, monkeypatch, all_layers=False):
    """A call gives what it gives where all rows are computed."""
    states, gradients = everything(model, inputs, all_layers=all_layers)
    monkeypatch.setattr(segments, "present_rows", lambda row, device: None)
    expected, their_gradients = everything(model, inputs, all_layers=all_layers)
    assert len(states) == len(expected) > 1
    for state, other in zip(states, expected, strict=True):
        torch.testing.assert_close(state, other, rtol=1e-10, atol=1e-12)
    assert gradients.keys() == their_gradients.keys()
    for weight, gradient in gradients.items():
        torch.testing.assert_close(gradient, their_gradients[weight], rtol=1e-9, atol=1e-10, msg=weight)


@pytest.mark.parametrize("alignment", ["left", "right", "even"])
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_states_and_gradients_are_those_of_all_rows(name, alignment, monkeypatch):
    model = model_of(name, alignment=alignment)
    inputs = inputs_of(model, name)
    assert_same(model, inputs, monkeypatch, all_layers=True)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "associative"},
        {"kind": "associative", "cache": 4},
        {"kind": "tokens", "cache": 4},
        {"kind": "tokens", "bptt": 1},
        {"kind": "tokens", "checkpoint": True},
    ],
    ids=str,
)
def test_it_does_not_matter_what_is_carried_and_how(options, monkeypatch):
    model = add_memory(plain("llama"), memory=2, segment_length=5, **options).double()
    with torch.no_grad():
        for weight in model.memory.parameters():
            weight.normal_()  # gates, too, which begin closed
    assert_same(model, inputs_of(model, "llama"), monkeypatch)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_row_is_computed_as_often_as_it_has_segments(name, monkeypatch):
    rows = []
    call = SegmentBackbone.__call__

    def counted(self, layers, **inputs):
        rows.append(len(inputs["inputs_embeds"]))
        return call(self, layers, **inputs)

    monkeypatch.setattr(SegmentBackbone, "__call__", counted)
    model = model_of(name)
    with torch.no_grad():
        answer(model, inputs_of(model, name))
    assert rows == [1, 1, 2, 3]
