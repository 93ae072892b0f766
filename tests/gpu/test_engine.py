"""The fast copy of a model, whose gradient is written down, is the model that autograd differentiates."""

# B batch · L tokens of a segment

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rmt import Output, SegmentModel
from rmt.gpu import naive
from rmt.gpu.engine import Engine, why_not_served
from rmt.gpu.segment import SegmentCall
from tests.gpu.updates import (
    DEVICE,
    SERVED,
    SIZES,
    assert_close,
    assert_same_outcome,
    differentiated,
    engine_of,
    loss_of,
    model_from,
    model_of,
    outputs_of,
    steps,
)
from tests.laws.models import assert_same_state, configuration

DOUBLE = torch.float64
NORMS = pytest.mark.parametrize("norm", ["pre", "post"])
POSITIONS = pytest.mark.parametrize("positions", ["relative", "rotary"])
MEMORIES = pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt"])


@pytest.mark.covering
@NORMS
@POSITIONS
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", SERVED)
def test_outputs_states_and_gradients_are_those_of_autograd(kind, size, positions, norm):
    model = model_of(kind, size, positions=positions, norm=norm)
    engine, expected = engine_of(model), differentiated(model)
    for _ in range(2):  # what an update leaves behind does not disturb the next
        assert_same_outcome(differentiated(model, engine), expected)


@pytest.mark.covering
@pytest.mark.parametrize("capacities", [(), (8, 5)], ids=["members", "capacities"])
@pytest.mark.parametrize("div_val", [1, 2])
@MEMORIES
def test_an_adaptive_softmax_is_that_of_autograd(kind, div_val, capacities):
    model = model_of(kind, cutoffs=(5, 9), div_val=div_val)
    expected = differentiated(model)
    assert_same_outcome(differentiated(model, engine_of(model), capacities=capacities), expected)


@pytest.mark.parametrize("capacities", [(), (2, 1)], ids=["members", "capacities"])
def test_clusters_that_no_target_is_in_have_a_gradient_of_zero(capacities):
    model = model_of("rmt", cutoffs=(5, 9))
    segments = [step if step.targets is None else step._replace(targets=step.targets % 5) for step in steps()]
    outcome = differentiated(model, engine_of(model), segments, capacities)
    assert_same_outcome(outcome, differentiated(model, segments=segments))


@pytest.mark.parametrize("cutoffs", [(), (5, 9)], ids=["one-table", "clusters"])
def test_memory_that_predicts_has_the_loss_and_gradient_of_autograd(cutoffs):
    config = configuration("rmt", **SIZES["odd"], cutoffs=cutoffs)
    model = model_from(replace(config, memory=replace(config.memory, predicts=True)))

    def memory_loss(outputs: Sequence[Output]) -> Tensor:
        return torch.stack([output.memory_loss for output in outputs if output.memory_loss is not None]).sum()

    expected = differentiated(model, loss_of=memory_loss)
    assert_same_outcome(differentiated(model, engine_of(model), loss_of=memory_loss), expected)


@pytest.mark.covering
@NORMS
@pytest.mark.parametrize("kind", SERVED)
def test_recomputed_segments_have_exactly_the_same_gradients(kind, norm):
    model = model_of(kind, norm=norm)
    kept, engine = differentiated(model, engine_of(model, max_waiting=0)), engine_of(model, recompute=True)
    recomputed = differentiated(model, engine, wrap=engine.recomputed)
    for name, gradient in kept.gradients.items():
        assert torch.equal(recomputed.gradients[name], gradient), name


@pytest.mark.parametrize("most", [0, 500, 5000])
def test_no_more_waits_than_may_and_nothing_is_lost(most):
    model = model_of("rmt")
    engine = engine_of(model, max_waiting=most)
    assert_same_outcome(differentiated(model, engine), differentiated(model))
    engine.begin()
    loss_of(outputs_of(engine.model, steps())).backward()
    waiting = [matrices.gradients.waiting_elements for matrices in engine.weights.matrices]
    assert all(elements <= most for elements in waiting)
    assert any(elements > 0 for elements in waiting) == (most > 500)


@MEMORIES
def test_only_segments_that_a_loss_depends_on_are_differentiated(kind):
    model = model_of(kind)

    def last_loss(outputs: Sequence[Output]) -> Tensor:
        return outputs[-1].losses.sum()

    expected = differentiated(model, loss_of=last_loss)
    assert_same_outcome(differentiated(model, engine_of(model), loss_of=last_loss), expected)


@pytest.mark.parametrize("part", ["backbone", "embedding", "memory"])
def test_frozen_parameters_get_no_gradient_and_the_others_theirs(part):
    model = model_of("rmt")
    getattr(model, part).requires_grad_(False)
    assert_same_outcome(differentiated(model, engine_of(model)), differentiated(model))
    assert all(parameter.grad is None for parameter in getattr(model, part).parameters())


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[SegmentCall]:
    """Fills with the segments that are encoded."""
    calls: list[SegmentCall] = []

    class Watched(SegmentCall):
        def __init__(self, *parts, **named):
            super().__init__(*parts, **named)
            calls.append(self)

    monkeypatch.setattr("rmt.gpu.backbone.SegmentCall", Watched)
    return calls


@pytest.mark.covering
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", SERVED)
def test_without_gradients_outputs_are_the_same(kind, mode):
    model = model_of(kind, cutoffs=(5,) if kind == "rmt" else ()).eval()
    with mode():
        engine = engine_of(model, learns=False)
        engine.begin()
        results, expected = (outputs_of(each, steps()) for each in (engine.model, model))
    for result, other in zip(results, expected, strict=True):
        assert_close(result.logits, other.logits, 1e-12)
        assert_same_state(result.state, other.state)


@pytest.mark.parametrize("learns", [True, False], ids=["without-gradient", "never-learns"])
@MEMORIES
def test_what_is_not_learned_from_keeps_nothing(kind, learns, monkeypatch):
    model, calls = model_of(kind), calls_of(monkeypatch)
    engine = engine_of(model, learns=learns)
    engine.begin()
    with torch.set_grad_enabled(not learns):
        outputs = outputs_of(engine.model, steps())
    assert len(calls) == len(steps())
    assert all(not call.records and call.output is None for call in calls)
    for output, expected in zip(outputs, outputs_of(model, steps()), strict=True):
        assert_close(output.logits, expected.logits, 1e-12)


@MEMORIES
def test_recomputed_segments_keep_what_goes_into_them_only(kind, monkeypatch):
    model, calls = model_of(kind), calls_of(monkeypatch)
    engine = engine_of(model, recompute=True)
    engine.begin()
    loss = loss_of(outputs_of(engine.model, steps(), wrap=engine.recomputed))
    assert all(not call.records and call.output is None for call in calls)
    loss.backward()
    assert len(calls) == len(steps())  # no other is made in the backward pass
    assert all(not call.records and call.output is None for call in calls)


def test_an_update_begins_with_the_parameters_as_they_are():
    model = model_of("transformer_xl_rmt", cutoffs=(5,))
    engine = engine_of(model)
    for _ in range(2):
        assert_same_outcome(differentiated(model, engine), differentiated(model))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.1)


@pytest.mark.covering
@pytest.mark.parametrize("div_val", [None, 1, 2], ids=["one-table", "clusters", "narrow-clusters"])
@POSITIONS
@pytest.mark.parametrize("kind", ["rmt", "memory_transformer", "baseline", "transformer_xl_rmt"])
def test_a_wide_model_in_bfloat16_is_nearly_autograds(kind, positions, div_val, monkeypatch):
    """Residuals in half precision, segments that are passed, tables with clusters and without."""
    monkeypatch.setattr("rmt.gpu.parameters.MAX_FLOAT32_SPAN", 0)
    clusters = {} if div_val is None else {"cutoffs": (4,), "div_val": div_val}
    model = model_of(kind, "odd", torch.float32, positions=positions, **clusters)
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0, 0.3)  # gains, too: what is rounded off stays small
    engine = Engine(model, torch.bfloat16, operations=naive)
    assert engine.weights.residual_dtype == torch.bfloat16
    expected = differentiated(model)
    with torch.autocast(DEVICE, torch.bfloat16):
        outcome = differentiated(model, engine)
    loss, exact = (loss_of(part.outputs) for part in (outcome, expected))
    assert abs(loss - exact) < 0.02 * exact
    for name, gradient in expected.gradients.items():
        assert outcome.gradients[name].dtype == torch.float32
        assert (outcome.gradients[name] - gradient).norm() <= 0.25 * gradient.norm(), name
    for output, plain in zip(outcome.outputs, expected.outputs, strict=True):  # a cache is formatted later
        state = output.state.with_dtypes_of(plain.state)
        assert output.state.memory.dtype == torch.float32
        assert {tensor.dtype for tensor in state.flat()} == {torch.float32, torch.long}


def identities(model: SegmentModel) -> list[object]:
    """All that a model consists of: its modules, their classes and attributes, its parameters."""
    parts = [(name, id(parameter)) for name, parameter in model.named_parameters()]
    for name, module in model.named_modules():
        parts += [(name, id(module), type(module))]
        parts += [(name, key, id(value)) for key, value in vars(module).items()]
    return parts


def test_the_plain_model_is_never_changed():
    model = model_of("transformer_xl_rmt")
    before = identities(model)
    twin = deepcopy(model)
    engine = engine_of(model)
    differentiated(model, engine)
    assert identities(model) == before
    other = deepcopy(model)
    assert_same_outcome(differentiated(other), differentiated(twin))


def test_the_fast_copy_shares_parameters_and_their_names():
    model = model_of("transformer_xl_rmt", cutoffs=(5,))
    fast = engine_of(model).model
    assert isinstance(fast, SegmentModel)
    assert dict(fast.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert all(dict(fast.named_parameters())[name] is tensor for name, tensor in model.named_parameters())


def why(model: SegmentModel, monkeypatch: pytest.MonkeyPatch, **how: Any) -> str:
    """Why a model is not served, if it were on a GPU."""
    monkeypatch.setattr(model, "parameters", lambda: iter([SimpleNamespace(device=torch.device("cuda"))]))
    return why_not_served(model, **{"precision": "bf16-mixed", **how})


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has all it takes."""
    monkeypatch.setattr("rmt.gpu.engine.multiplies_in_bfloat16", lambda device: True)
    monkeypatch.setattr("rmt.gpu.engine.find_spec", lambda name: name)


@NORMS
@POSITIONS
@pytest.mark.parametrize("kind", SERVED)
def test_every_model_is_served(kind, positions, norm, gpu, monkeypatch):
    model = model_of(kind, positions=positions, norm=norm, dropout=0.1, cutoffs=(5,), div_val=2)
    assert why(model, monkeypatch) == ""
    assert why(model, monkeypatch, precision="32-true") == ""


@pytest.mark.parametrize(
    ("kind", "settings", "how", "reason"),
    [
        ("rmt", {}, {"precision": "64-true"}, "precision=64-true has no kernels"),
        ("rmt", {}, {"precision": "32-true", "learns": False}, "products in TF32 are for training only"),
        ("rmt", {"head_width": 256}, {}, "head_width=256 is above 128"),
        ("rmt", {"positions": "relative-lm-rmt"}, {}, "positions=relative-lm-rmt look at what comes later"),
        ("memory_in_layers", {}, {}, "memory.kind=layer_average lives in the layers"),
        ("associative_memory", {}, {}, "memory.kind=associative lives in the layers"),
    ],
)
def test_what_is_not_served_says_why(kind, settings, how, reason, gpu, monkeypatch):
    assert why(model_of(kind, **settings), monkeypatch, **how) == reason


def test_a_model_with_a_frozen_parameter_is_served_where_it_does_not_learn(gpu, monkeypatch):
    model = model_of("rmt")
    model.embedding.requires_grad_(False)  # then nothing would tell the layers to differentiate
    assert why(model, monkeypatch) == "embedding.weight is frozen"
    assert why(model, monkeypatch, learns=False) == ""


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("multiplies_in_bfloat16", "the GPU multiplies neither in bfloat16 nor in TF32"),
        ("find_spec", "Triton is not installed"),
    ],
)
def test_a_machine_that_lacks_something_says_what(missing, reason, gpu, monkeypatch):
    monkeypatch.setattr(f"rmt.gpu.engine.{missing}", lambda *_: None)
    assert why(model_of("rmt"), monkeypatch) == reason


def test_a_cpu_is_not_served():
    model = model_of("rmt").cpu()
    assert why_not_served(model, "bf16-mixed") == "it serves CUDA devices, not cpu"
