"""The probe of memory equals plain autograd, and training does not notice it."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.core.tree import tree_map
from rmt.tasks.copy import Copy
from rmt.tasks.segments import Segment, cut
from rmt.train.checkup import Checkup
from rmt.train.probe import INPUTS, MemoryProbe, probe_memory, probed_segments
from tests.laws.models import build, carried, configuration, over, random_tokens
from tests.train.runs import metrics, run, tiny, weights

KINDS = (
    "rmt",
    "transformer_xl_rmt",
    "unwritten_memory",
    "memory_in_layers_with_cache",
    "associative_memory_with_cache",
)
FIELDS = MemoryProbe._fields


def segments_of(count: int = 3, length: int = 3, inputs: int = 4) -> list[Segment]:
    """Segments of random tokens; only part of the last is under the loss."""
    rows = torch.stack([random_tokens(count * length + 1, seed=seed) for seed in range(inputs)])
    mask = torch.zeros(inputs, count * length, dtype=torch.bool)
    mask[:, -2:] = True
    return cut(Segment(rows[:, :-1], rows[:, 1:], mask), length)


def gradient_at(model, segments: list[Segment], border: int) -> float:
    """The gradient at one border, by starting anew from the memory that is carried over it."""
    *before, last = segments
    state = model.initial_state(len(last.tokens))
    with torch.no_grad():
        for segment in before[:border]:
            state = model(segment.tokens, state).state
    leaves = tree_map(lambda tensor: tensor.clone().requires_grad_(), state.carried)
    state = state._replace(carried=leaves)
    for segment in before[border:]:
        state = model(segment.tokens, state).state
    logits = model(last.tokens, state).logits[last.loss_mask]
    F.cross_entropy(logits, last.targets[last.loss_mask]).backward()
    return whole([tensor.grad for tensor in carried(state._replace(carried=leaves))])


def whole(tensors: list[Tensor]) -> float:
    return float(torch.cat([tensor.detach().flatten() for tensor in tensors]).norm())


def own_share(tensors: list[Tensor], dimension: int) -> float:
    """The norm of what is not shared along a dimension, over the norm of all."""
    return whole([tensor - tensor.mean(dimension, keepdim=True) for tensor in tensors]) / whole(tensors)


@over(KINDS, positions=("rotary",))
def test_the_probe_equals_plain_autograd_border_by_border(config):
    model, segments = build(config).double(), segments_of()
    probe = probe_memory(model, segments)
    assert probe.memory_gradient == pytest.approx([gradient_at(model, segments, border) for border in (1, 2)])
    state = model.initial_state(4)
    for border, segment in enumerate(segments[:2]):
        state = model(segment.tokens, state).state
        memory = carried(state)
        slots = [tensor for tensor in memory if tensor.dim() == 3]
        assert probe.inputs_apart[border] == pytest.approx(own_share(memory, 0))
        assert probe.slots_apart[border] == pytest.approx(own_share(slots, 1) if slots else 0.0)
    assert min(probe.memory_gradient) > 0


def test_beyond_the_depth_of_training_the_gradient_is_zero_and_within_it_the_same():
    model, segments = build(configuration("rmt")).double(), segments_of(count=5)
    whole_probe = probe_memory(model, segments)
    for depth in range(4):
        probe = probe_memory(model, segments, depth)
        unreached = 3 - depth
        assert probe.memory_gradient[:unreached] == [0.0] * unreached
        assert probe.memory_gradient[unreached:] == pytest.approx(whole_probe.memory_gradient[unreached:])
        assert probe.slots_apart == pytest.approx(whole_probe.slots_apart)


def test_the_probe_leaves_gradients_and_mode_and_random_numbers_as_they_are():
    model = build(configuration("rmt", dropout=0.5)).train()
    before = torch.get_rng_state()
    first, again = (probe_memory(model, segments_of()) for _ in range(2))
    assert first == again
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_copy_is_probed_up_to_the_first_segment_of_the_answer():
    segments = probed_segments(Copy(length=6), 2)
    assert len(segments) == 4
    assert [bool(segment.loss_mask.any()) for segment in segments] == [False] * 3 + [True]
    assert segments[0].tokens.shape == (INPUTS, 2)


def test_what_comes_behind_the_answer_is_not_probed(monkeypatch):
    """A task of one's own may ask early, and tell something else afterwards."""
    batch = Copy(length=2).split("valid", 4)
    early = batch.answer.clone()
    early[:, 4:] = False
    monkeypatch.setattr(Copy, "beginning", lambda *_: batch._replace(answer=early, loss_mask=early))
    assert len(probed_segments(Copy(length=2), 3)) == 2
    early[:, 3:] = False
    assert len(probed_segments(Copy(length=2), 3)) == 1
    early[:] = False
    assert len(probed_segments(Copy(length=2), 3)) == 1


def test_an_answer_that_begins_before_the_first_border_is_probed_in_the_last_segment():
    assert len(probed_segments(Copy(length=2), 3)) == 2


@pytest.mark.parametrize("settings", [{}, {"model": {"dropout": 0.3}}], ids=["plain", "dropout"])
def test_weights_are_the_same_to_the_bit_without_a_probe(tmp_path, monkeypatch, settings):
    config = tiny(**settings)
    run(config, tmp_path / "with")
    monkeypatch.setattr(Checkup, "probe", lambda self: None)
    run(config, tmp_path / "without")
    for name, tensor in weights(tmp_path / "with", 12).items():
        assert torch.equal(tensor, weights(tmp_path / "without", 12)[name])
    lines = [line for line in metrics(tmp_path / "with") if "memory_gradient" not in line]
    assert lines == metrics(tmp_path / "without")


def test_a_run_logs_its_probes_at_the_start_and_with_each_evaluation(tmp_path):
    run(tiny(), tmp_path)
    probes = [line for line in metrics(tmp_path) if "memory_gradient" in line]
    assert [line["step"] for line in probes] == [0, 4, 8, 12]
    assert all(len(line[name]) == 1 for line in probes for name in FIELDS)


def test_a_stopped_run_logs_what_one_logs_that_was_never_stopped(tmp_path):
    run(tiny(), tmp_path / "whole")
    for stop in (2, 7):
        run(tiny(), tmp_path / "stopped", stop=stop)
    run(tiny(), tmp_path / "stopped")
    assert metrics(tmp_path / "stopped") == metrics(tmp_path / "whole")


@pytest.mark.parametrize(
    "memory", [{"size": 0}, {"size": 2, "write": False, "recurrent": False}], ids=["none", "not-recurrent"]
)
def test_without_recurrent_memory_there_is_nothing_to_probe(tmp_path, memory):
    run(tiny(model={"memory": memory}), tmp_path)
    assert not any("memory_gradient" in line for line in metrics(tmp_path))
