"""Truncated BPTT that truncates: exactly zero beyond the depth, equal to the loop's own windows within it."""

import pytest
import torch

from rmt.core.bptt import bptt
from rmt.hf.cell import Cell
from rmt.hf.segments import plan
from tests.hf.zoo import answer, main_output, of_kind, remembering, texts

DEPTHS = pytest.mark.parametrize("depth", [0, 1, 2, 3, "full"])


@pytest.mark.covering
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
@DEPTHS
def test_gradients_are_those_of_the_training_loops_windows(name, depth):
    model = remembering(name, bptt=depth, alignment="left")
    inputs = texts(name, 18 + model.settings.prefix + model.settings.suffix)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(inputs["input_ids"].shape[1], 16, generator=generator)
    if model.settings.prefix:
        weights[0] = weights[-1] = 0  # what stands for all segments
    loss = (model(**inputs).last_hidden_state[0] * weights).sum()
    got = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    cell = Cell(model, {"return_dict": True})
    cut = plan(
        {"input_ids": inputs["input_ids"]}, inputs["attention_mask"].bool(), model.settings, model.layout
    )
    before = model.settings.prefix + (model.layout.separator if model.settings.prefix else 0)

    def loss_of(index, output):
        part = weights[model.settings.prefix :][5 * index : 5 * index + 5]
        part = part[: 18 - 5 * index]
        return (output.hidden[0, before : before + len(part)] * part).sum()

    total = sum(bptt(cell, cut.segments, model.initial_state(1), loss_of, depth))
    expected = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    assert any(gradient is not None and gradient.any() for gradient in got)
    for gradient, reference in zip(got, expected, strict=True):
        gradient, reference = (torch.zeros(1) if g is None else g for g in (gradient, reference))
        torch.testing.assert_close(gradient, reference, rtol=1e-6, atol=1e-6)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("bert", "ForSequenceClassification"),
        ("roberta", "ForTokenClassification"),
        ("gpt2", "ForCausalLM"),
        ("llama", "ForSequenceClassification"),
        ("t5", "ForConditionalGeneration"),
        ("bart", "ForSequenceClassification"),
    ],
)
@DEPTHS
def test_beyond_the_depth_gradients_are_exactly_zero_and_within_it_they_are_not(name, head, depth):
    model = remembering(name, head, bptt=depth, alignment="left")
    inputs = texts(name, 20 + model.settings.prefix + model.settings.suffix)
    seen = []

    def keep(module, arguments, output):
        if output.requires_grad:
            output.retain_grad()
        seen.append((arguments[0].tolist(), output))

    with hook(model, keep):
        output = main_output(answer(model, inputs))
    reached_by_last(output, head, model).backward()
    text = inputs["input_ids"][0, model.settings.prefix :].tolist()
    for segment in range(4):
        tokens = text[5 * segment : 5 * segment + 5]
        grads = [
            embedded.grad for ids, embedded in seen if contains(ids[0], tokens) and embedded.grad is not None
        ]
        reached = any(grad.any() for grad in grads)
        assert reached == (depth == "full" or 3 - segment <= depth)
    initial = model.memory.tokens.weight.grad
    assert (initial is not None and bool(initial.any())) == (depth == "full" or depth >= 3)


@pytest.mark.covering
@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
@pytest.mark.parametrize("depth", [1, "full"])
def test_a_checkpointed_segment_has_the_same_gradient(name, depth):
    head = "ForSequenceClassification"
    gradients = []
    for checkpoint in (False, True):
        model = remembering(name, head, bptt=depth, checkpoint=checkpoint)
        loss = model(**texts(name, 17, 9), labels=torch.tensor([0, 2])).loss
        drawn = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        gradients.append([torch.zeros(1) if gradient is None else gradient for gradient in drawn])
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_a_checkpointed_segment_keeps_less():
    kept = []
    for checkpoint in (False, True):
        model = remembering("gpt2", "ForCausalLM", checkpoint=checkpoint)
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, sizes=sizes: sizes.append(tensor.nbytes) or tensor, lambda tensor: tensor
        ):
            model(**texts("gpt2", 40))
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 2


def test_what_lies_before_the_window_is_read_without_a_graph():
    kept = []
    for length in (7, 42):  # 1 segment, 8 segments
        model = remembering("bert", "ForSequenceClassification", bptt=0)
        sizes: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor, sizes=sizes: sizes.append(tensor.nbytes) or tensor, lambda tensor: tensor
        ):
            model(**texts("bert", length))
        kept.append(sum(sizes))
    assert kept[1] < kept[0] * 1.2


def test_reading_without_gradients_needs_no_windows(monkeypatch):
    model = remembering("gpt2", "ForCausalLM", bptt=1)
    calls = []
    original = Cell.__call__
    monkeypatch.setattr(
        Cell, "__call__", lambda self, *arguments: calls.append(1) or original(self, *arguments)
    )
    with torch.no_grad():
        model(**texts("gpt2", 20))
    assert len(calls) == 4
    model(**texts("gpt2", 20))
    assert len(calls) == 4 + 7  # 1 + 2 + 2 + 2


def reached_by_last(output, head, model):
    """A number that depends on the last segment's answer."""
    one_answer = head == "ForSequenceClassification" or model.family.kind == "seq2seq"
    return (output if one_answer else output[:, -2]).pow(2).sum()


def contains(ids, part):
    return any(ids[start : start + len(part)] == part for start in range(len(ids) - len(part) + 1))


class hook:
    def __init__(self, model, keep):
        self.handle = model.segment_backbone().get_input_embeddings().register_forward_hook(keep)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.handle.remove()
