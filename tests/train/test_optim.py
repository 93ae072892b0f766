"""Which optimizer gets which parameter, and the learning rate over time."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rmt import SegmentModel
from rmt.train.config import OptimizerConfig, RateConfig
from rmt.train.eager import Adam, AdamW
from rmt.train.muon import Muon
from rmt.train.optim import Rate, build_optimizers
from tests.laws.models import configuration


def test_muon_gets_the_matrices_of_the_layers_and_adamw_all_the_rest():
    model = SegmentModel(configuration("transformer_xl_rmt"))
    muon, adamw = build_optimizers(
        model.named_parameters(), OptimizerConfig(lr=0.1, matrix_lr=0.2, momentum=0.7, weight_decay=0.3)
    )
    assert isinstance(muon, Muon)
    assert isinstance(adamw, torch.optim.AdamW)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    matrices, rest = (
        {names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]}
        for optimizer in (muon, adamw)
    )
    assert matrices | rest == set(names.values())
    assert not matrices & rest
    assert "backbone.layers.0.attention.qkv.weight" in matrices
    assert all(model.get_parameter(name).ndim == 2 for name in matrices)
    assert {"embedding.weight", "memory.tokens.weight"} <= rest
    assert not any(name.endswith(("norm.weight", "bias")) for name in matrices)
    assert (muon.param_groups[0]["lr"], muon.param_groups[0]["momentum"]) == (0.2, 0.7)
    assert (adamw.param_groups[0]["lr"], adamw.param_groups[0]["betas"]) == (0.1, (0.9, 0.99))
    assert muon.param_groups[0]["weight_decay"] == adamw.param_groups[0]["weight_decay"] == 0.3


@pytest.mark.parametrize(("name", "kind"), [("adam", Adam), ("adamw", AdamW)])
def test_adam_and_adamw_get_everything(name, kind):
    model = SegmentModel(configuration("rmt"))
    (optimizer,) = build_optimizers(
        model.named_parameters(), OptimizerConfig(name=name, lr=0.1, beta1=0.5, beta2=0.6)
    )
    assert type(optimizer) is kind
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["betas"]) == (0.1, (0.5, 0.6))


def test_the_rate_warms_up_to_one_and_stays_there():
    rate = Rate(RateConfig(warmup=4), steps=10)
    assert [rate.factor(step) for step in range(7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0]


def test_a_linear_rate_falls_in_a_line_from_the_warm_up_to_the_minimum():
    rate = Rate(RateConfig(schedule="linear", warmup=2, minimum=0.2), steps=10)
    assert [rate.factor(step) for step in (0, 1, 2, 4, 6, 8, 10)] == pytest.approx(
        [0.5, 1, 1, 0.8, 0.6, 0.4, 0.2]
    )


def test_a_cosine_rate_falls_in_half_a_wave_from_the_warm_up_to_the_minimum():
    rate = Rate(RateConfig(schedule="cosine", warmup=2, minimum=0.2), steps=10)
    quarter = 0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2
    assert [rate.factor(step) for step in (1, 2, 4, 6, 10)] == pytest.approx([1, 1, quarter, 0.6, 0.2])


def test_a_plateau_rate_falls_after_more_than_patience_evaluations_without_a_better_loss():
    rate = Rate(RateConfig(schedule="plateau", patience=1, factor=0.1, minimum=0.05), steps=100)
    factors = []
    for loss in (3.0, 2.0, 2.0, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0):
        rate.evaluated(loss)
        factors.append(rate.factor(50))
    assert factors == pytest.approx([1, 1, 1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05])


def test_a_rate_stays_until_it_is_to_fall_and_then_falls_to_its_minimum():
    rate, early = (Rate(RateConfig(schedule="linear", warmup=2), steps=10) for _ in range(2))
    rate.hold()
    assert [rate.factor(step) for step in (0, 1, 5, 9)] == [0.5, 1, 1, 1]
    rate.fall_from(6)
    assert [rate.factor(step) for step in (1, 5, 6, 7, 10)] == [1, 1, 1, 0.75, 0]
    early.hold()
    early.fall_from(1)  # not before the warm-up ends
    assert [early.factor(step) for step in (0, 2, 6)] == [0.5, 1, 0.5]


def test_a_rate_that_falls_already_as_in_runs_of_older_releases_goes_on_falling():
    rate = Rate(RateConfig(schedule="linear", warmup=2), steps=10)
    rate.hold()
    rate.load_state_dict({"best": 1.0, "waited": 0, "fallen": 1.0})
    rate.fall_from(8)
    assert [rate.factor(step) for step in (2, 6, 8)] == [1, 0.5, 0.25]


def test_a_plateau_is_not_counted_while_a_rate_is_held():
    rate = Rate(RateConfig(schedule="plateau", patience=0), steps=100)
    rate.hold()
    for loss in (1.0, 2.0, 3.0):
        rate.evaluated(loss)
    assert rate.factor(50) == 1
    rate.fall_from(50)
    for loss in (2.0, 3.0):
        rate.evaluated(loss)
    assert rate.factor(60) == 0.5


def test_a_plateau_survives_a_round_trip():
    config = RateConfig(schedule="plateau", patience=1)
    rate, again = Rate(config, steps=100), Rate(config, steps=100)
    for loss in (1.0, 2.0, 2.0, 2.0):
        rate.evaluated(loss)
    again.load_state_dict(rate.state_dict())
    for one in (rate, again):
        one.evaluated(2.0)
    assert again.factor(9) == rate.factor(9) == 0.25


def test_the_rate_is_a_factor_on_the_learning_rate_of_each_optimizer():
    model = SegmentModel(configuration("rmt"))
    optimizers = build_optimizers(model.named_parameters(), OptimizerConfig(lr=0.1, matrix_lr=0.2))
    rate = Rate(RateConfig(warmup=4), steps=10)
    for step, expected in ((0, [0.05, 0.025]), (1, [0.1, 0.05]), (3, [0.2, 0.1]), (9, [0.2, 0.1])):
        rate.apply(optimizers, step)
        assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == pytest.approx(expected)


class Waits(TorchDispatchMode):
    """Counts how often a number is asked of a device."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **options or {})


def test_a_rate_on_the_device_is_asked_for_before_the_first_update_only():
    optimizer = Muon([torch.nn.Parameter(torch.ones(2, 2))], lr=torch.tensor(0.5))
    rate, counts = Rate(RateConfig(warmup=2), steps=10), []
    for step in range(3):
        with Waits() as waits:
            rate.apply([optimizer], step)
        counts.append(waits.count)
    assert counts == [1, 0, 0]
    assert optimizer.param_groups[0]["lr"].item() == 0.5
