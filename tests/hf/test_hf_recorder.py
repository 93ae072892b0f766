"""Recorded segments: the same function, recorded when a form comes again, dropped when anything else changes.

On a CPU work is done again where a graph would be launched; test_hf_graphs.py has the graphs themselves.
"""

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch
from torch import nn

from rmt.hf import recorder
from rmt.hf.cell import Cell
from rmt.hf.graphs import Unsynchronised
from rmt.hf.recorder import reason_not_recorded
from rmt.hf.segmentwise import SegmentwiseCall
from tests.hf.launching import RepeatingLauncher
from tests.hf.zoo import EAGER_ONLY, answer, main_output, of_kind, remembering, texts

FAMILIES = pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
LENGTHS = pytest.mark.parametrize("lengths", [(17, 17), (17, 8), (3, 12)], ids=str)
HEAD = {"encoder": "ForSequenceClassification", "decoder": "ForCausalLM", "seq2seq": "Model"}


@pytest.fixture(autouse=True)
def launcher(monkeypatch):
    """Everything that can be recorded is, on the CPU."""

    class Launcher(RepeatingLauncher):
        pass

    monkeypatch.setitem(recorder.LAUNCHERS, "cpu", Launcher)
    return Launcher


def model_of(name, **options):
    head = HEAD[
        "seq2seq" if name in of_kind("seq2seq") else "decoder" if name in of_kind("decoder") else "encoder"
    ]
    return remembering(name, head, "eager" if name in EAGER_ONLY else "sdpa", **options)


def gradients_of(model, inputs):
    """The output of a call, and the gradient of every weight."""
    output = main_output(answer(model, inputs))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [output.detach(), *torch.autograd.grad(output.square().sum(), trained, allow_unused=True)]


def assert_same(results, expected):
    for result, reference in zip(results, expected, strict=True):
        if reference is None:
            assert result is None or not result.any()
        else:
            torch.testing.assert_close(result, reference, rtol=1e-9, atol=1e-11)


@pytest.mark.covering
@FAMILIES
@LENGTHS
def test_recorded_segments_are_the_same_function(name, lengths, launcher, monkeypatch):
    model = model_of(name)
    inputs, others = texts(name, *lengths), texts(name, *lengths, seed=1)
    monkeypatch.delitem(recorder.LAUNCHERS, "cpu")
    expected = [gradients_of(model, batch) for batch in (inputs, others)]
    monkeypatch.setitem(recorder.LAUNCHERS, "cpu", launcher)
    gradients_of(model, inputs)
    assert launcher.recorded == 0
    assert_same(gradients_of(model, inputs), expected[0])
    assert launcher.recorded > 0
    recorded = launcher.recorded
    assert_same(gradients_of(model, others), expected[1])
    assert launcher.recorded == recorded
    with torch.no_grad():
        for _ in range(3):
            assert_same([main_output(answer(model, others))], expected[1][:1])
    with torch.inference_mode():
        assert_same([main_output(answer(model, others))], expected[1][:1])


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["paper", "causal"])
@pytest.mark.parametrize("name", of_kind("decoder"))
def test_causal_attention_with_memory_blocks_needs_no_mask(name, layout, launcher, monkeypatch):
    model = remembering(name, "ForCausalLM", "sdpa", layout=layout)
    inputs = texts(name, 20, 20)
    monkeypatch.delitem(recorder.LAUNCHERS, "cpu")
    expected = gradients_of(model, inputs)
    monkeypatch.setitem(recorder.LAUNCHERS, "cpu", launcher)
    gradients_of(model, inputs)
    assert_same(gradients_of(model, inputs), expected)
    assert launcher.replayed > 0


@pytest.mark.parametrize("kept", [2, 1, 0])
def test_truncated_gradients_are_the_same(kept, launcher, monkeypatch):
    model = model_of("gpt2", bptt=kept)
    inputs = texts("gpt2", 20, 20)
    monkeypatch.delitem(recorder.LAUNCHERS, "cpu")
    expected = gradients_of(model, inputs)
    monkeypatch.setitem(recorder.LAUNCHERS, "cpu", launcher)
    gradients_of(model, inputs)
    assert_same(gradients_of(model, inputs), expected)
    assert launcher.replayed > 0


def test_token_types_are_an_input_of_a_recording(launcher):
    model = model_of("bert")
    inputs = texts("bert", 17, 17)
    inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
    for _ in range(3):
        first = gradients_of(model, inputs)
    inputs["token_type_ids"] = torch.ones_like(inputs["input_ids"])
    second = gradients_of(model, inputs)
    assert launcher.replayed > 0
    assert not torch.allclose(first[0], second[0])


def warmed(model, inputs, calls=2):
    for _ in range(calls):
        gradients_of(model, inputs)
    return model


def test_texts_that_wait_for_their_gradient_do_not_share_a_slot(launcher):
    model = model_of("bert")
    batches = [texts("bert", 17, 17, seed=seed) for seed in range(3)]
    expected = [gradients_of(warmed(model, batch), batch) for batch in batches]
    outputs = [main_output(answer(model, batch)) for batch in batches]
    for output, reference in zip(outputs, expected, strict=True):
        gradients = torch.autograd.grad(output.square().sum(), list(model.parameters()), allow_unused=True)
        assert_same([output.detach(), *gradients], reference)
    assert len(recorder.recorders[model].slots) == 3 * 3


def test_slots_are_free_again_once_no_gradient_can_be_asked_for(launcher):
    model = warmed(model_of("bert"), texts("bert", 17, 17))
    slots = recorder.recorders[model].slots
    loss = main_output(answer(model, texts("bert", 17, 17))).sum()
    assert not any(slot.free for slot in slots)
    loss.backward(retain_graph=True)
    assert not any(slot.free for slot in slots)
    loss.backward()
    assert all(slot.free for slot in slots)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    loss = main_output(answer(model, texts("bert", 17, 17))).sum()
    assert not any(slot.free for slot in slots)
    del loss
    assert all(slot.free for slot in slots)


def test_gradients_add_up_over_calls_and_over_backward_passes(launcher):
    model = warmed(model_of("bert"), texts("bert", 17, 17))
    expected = gradients_of(model, texts("bert", 17, 17))[1:]
    for _ in range(2):
        loss = main_output(answer(model, texts("bert", 17, 17))).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
    sums = [parameter.grad for parameter in model.parameters()]
    assert_same(sums, [None if gradient is None else 4 * gradient for gradient in expected])


def test_outputs_and_states_stay_what_they_were(launcher):
    model = warmed(model_of("gpt2"), texts("gpt2", 10, 10))
    with torch.no_grad():
        outputs = [
            answer(model, texts("gpt2", 10, 10, seed=seed), return_state=True) for seed in (0, 0, 0, 1)
        ]
    assert torch.equal(outputs[1].logits, outputs[2].logits)
    assert torch.equal(outputs[1].state.memory, outputs[2].state.memory)
    assert not torch.equal(outputs[2].logits, outputs[3].logits)


CHANGES = {
    "training": lambda model: model.train(),
    "weights elsewhere": lambda model: model.bert.encoder.layer[0].output.dense.weight.set_(
        model.bert.encoder.layer[0].output.dense.weight.detach().clone()
    ),
    "another weight": lambda model: setattr(
        model.bert.encoder.layer[0].output.dense, "bias", nn.Parameter(torch.randn(16))
    ),
    "frozen": lambda model: model.bert.encoder.layer[0].requires_grad_(False),
    "dropout": lambda model: setattr(model.bert.encoder.layer[1].output.dropout, "p", 0.5),
    "attention": lambda model: model.set_attn_implementation("eager"),
    "another part": lambda model: setattr(model.bert.encoder.layer[0].output, "dense", nn.Linear(24, 16)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_recordings_are_dropped_when_what_they_depend_on_changes(change, launcher):
    inputs = texts("bert", 17, 17)
    model = warmed(model_of("bert"), inputs)
    before = recorder.recorders[model]
    gradients_of(model, inputs)
    assert recorder.recorders[model] is before
    with torch.no_grad():
        CHANGES[change](model)
    expected = gradients_of(model, inputs)
    assert recorder.recorders[model] is not before
    if change not in ("training", "dropout"):
        assert_same(gradients_of(model, inputs), expected)


def test_weights_that_learn_in_place_are_seen(launcher):
    model = warmed(model_of("bert"), texts("bert", 17, 17))
    before = recorder.recorders[model]
    first = gradients_of(model, texts("bert", 17, 17))[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    assert not torch.allclose(gradients_of(model, texts("bert", 17, 17))[0], first)
    assert recorder.recorders[model] is before


def test_hooks_are_called(launcher):
    model, calls = warmed(model_of("bert"), texts("bert", 17, 17)), []
    hook = model.bert.encoder.layer[0].register_forward_hook(lambda *_: calls.append(1))
    gradients_of(model, texts("bert", 17, 17))
    assert len(calls) == 3
    hook.remove()
    assert reason_not_recorded(model, {}) == ""


REASONS = {
    "hooks": lambda model: model.bert.encoder.layer[0].register_forward_hook(lambda *_: None),
    "again in the backward": lambda model: model.train().gradient_checkpointing_enable(),
    "forward of its own": lambda model: setattr(
        model.bert.encoder.layer[0], "forward", model.bert.encoder.layer[0].forward
    ),
    "configuration asks for more": lambda model: setattr(model.config, "output_hidden_states", True),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_a_recording_would_leave_out_is_computed_as_it_is(reason, launcher):
    model = model_of("bert")
    REASONS[reason](model)
    warmed(model, texts("bert", 17, 17))
    assert reason in reason_not_recorded(model, {})
    assert launcher.recorded == 0


def test_hidden_states_are_given_as_before(launcher):
    model = warmed(model_of("bert"), texts("bert", 17, 17), calls=3)
    states = [answer(model, texts("bert", 17, 17), output_hidden_states=True).hidden_states for _ in range(3)]
    assert len(states[2]) == 3
    assert reason_not_recorded(model, {}) == ""  # hooks of transformers itself are left alone


def test_a_model_without_memory_blocks_is_computed_as_it_is(launcher):
    model = remembering("bert", memory=0)
    assert reason_not_recorded(model, {}).startswith("memory is in the layers, or there is none")


def test_checkpointed_segments_are_computed_as_they_are(launcher):
    model = warmed(model_of("bert", checkpoint=True), texts("bert", 17, 17), calls=3)
    assert launcher.recorded == 0
    with torch.no_grad():
        for _ in range(2):
            answer(model, texts("bert", 17, 17))
    assert launcher.recorded > 0


def test_other_threads_compute_as_it_is(launcher):
    model = model_of("bert")
    thread = threading.Thread(target=warmed, args=(model, texts("bert", 17, 17), 3))
    thread.start()
    thread.join()
    assert launcher.recorded == 0


def test_work_that_waits_for_the_device_is_not_recorded(launcher):
    class Waiting(nn.Linear):
        def forward(self, hidden):
            return super().forward(hidden) * float(hidden.sum() != 0)

    model = model_of("bert")
    model.bert.encoder.layer[0].output.dense.__class__ = Waiting
    expected = gradients_of(model, texts("bert", 17, 17))
    for _ in range(3):
        assert_same(gradients_of(model, texts("bert", 17, 17)), expected)
    assert launcher.recorded == 0


@pytest.mark.covering
@pytest.mark.parametrize("lengths", [(17, 17), (17, 8)], ids=str)
@pytest.mark.parametrize("name", [name for name in of_kind("encoder", "decoder") if name not in EAGER_ONLY])
def test_no_segment_makes_the_host_wait(name, lengths, launcher, monkeypatch):
    monkeypatch.delitem(recorder.LAUNCHERS, "cpu")
    model, original, segments = model_of(name), Cell.__call__, []

    def watched(cell, segment, state):
        segments.append(segment)
        with Unsynchronised(torch.device("cpu")):
            return original(cell, segment, state)

    monkeypatch.setattr(Cell, "__call__", watched)
    with torch.no_grad():
        answer(model, texts(name, *lengths))
    assert len(segments) == 4 if name in of_kind("decoder") else 3


def test_ragged_segments_have_one_of_a_few_lengths(launcher, monkeypatch):
    monkeypatch.setattr(recorder, "ROUNDED_TO", 4)
    model = remembering("bert", "ForSequenceClassification", "sdpa", length=13)
    for length in range(16, 30):
        gradients_of(model, texts("bert", length, length - 5))
    forms = recorder.recorders[model].seen
    lengths = {part[0][1] for form in forms for part in form if isinstance(part, tuple)}
    assert lengths == {8, 12, 16, 18, 20}  # 18: without padding, 13 tokens, 3 special ones and 2 of memory


def test_no_segment_is_longer_than_the_model_has_positions(launcher):
    model = remembering("bert", "ForSequenceClassification", "sdpa", length=58)
    lengths = recorder.Lengths.of(model)
    assert [lengths.rounded(length) for length in (1, 40, 61)] == [62, 62, 62]
    assert recorder.Lengths(515, 10, None).rounded(515) == 518
    assert recorder.Lengths(515, 10, None).rounded(300) == 374


def test_recordings_are_in_no_copy_and_in_no_file(launcher, tmp_path):
    model = warmed(model_of("bert"), texts("bert", 17, 17))
    attributes = set(model.__dict__)
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    model.save_pretrained(tmp_path)
    twins.append(type(model).from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="sdpa"))
    expected = gradients_of(model, texts("bert", 17, 17))
    for other in twins:
        assert other not in recorder.recorders
        assert set(other.__dict__) == attributes or other is twins[-1]
        for _ in range(3):
            assert_same(gradients_of(other, texts("bert", 17, 17)), expected)
    assert set(model.state_dict()) == set(twins[0].state_dict())


def test_a_model_that_nobody_needs_is_forgotten_with_its_recordings(launcher):
    model = warmed(model_of("gpt2"), texts("gpt2", 17, 17))
    reference = weakref.ref(recorder.recorders[model])
    del model
    gc.collect()
    assert reference() is None


def test_an_adapter_that_is_switched_off_is_off(launcher):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        target_modules=["query", "value"], modules_to_save=["memory"], init_lora_weights=False
    )
    model = peft.get_peft_model(model_of("bert"), config)
    inputs = texts("bert", 17, 17)
    for _ in range(3):
        adapted = gradients_of(model, inputs)
    with model.disable_adapter():
        plain_outputs = [main_output(answer(model, inputs)) for _ in range(3)]
    assert not torch.allclose(adapted[0], plain_outputs[2])
    assert_same([plain_outputs[2]], [plain_outputs[0]])
    for _ in range(3):
        assert_same(gradients_of(model, inputs), adapted)
    assert launcher.replayed > 0
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert all("lora" in name or "memory" in name for name in names)


def test_a_call_of_one_segment_records_at_its_second_time(launcher):
    model = model_of("bert")
    for calls in range(3):
        with torch.no_grad():
            SegmentwiseCall(model, None)(**texts("bert", 7, 7))
        assert launcher.recorded == (calls > 0)
