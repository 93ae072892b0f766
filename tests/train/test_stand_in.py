"""One model takes the weights of all that are measured: seeds of a run, and what is tested at its end."""

import pytest
import torch

from rmt.core.model import SegmentModel
from rmt.experiments.run import train_seeds
from rmt.infer.work import worker_of
from rmt.train import measure
from rmt.train.measure import StandIn
from tests.laws.models import build, configuration
from tests.train.runs import tiny
from tests.train.seeds import SEEDS, watchers


def encode(model, kind, state, tokens):
    output = model(tokens, state)
    return output.state, (output.logits,)


def test_all_seeds_and_their_tests_are_measured_with_one_model_and_their_own_weights(tmp_path, monkeypatch):
    measured, weights = [], []

    def evaluate(model, *rest, **options):
        measured.append(model)
        weights.append(model.embedding.weight.sum().item())
        return original(model, *rest, **options)

    original = measure.evaluate
    monkeypatch.setattr(measure, "evaluate", evaluate)
    train_seeds(tiny(), tmp_path, watchers())
    assert len(measured) == SEEDS * 4  # evaluations at 4, 8 and 12, and the test
    assert len(set(map(id, measured))) == 1
    assert len(set(weights)) >= SEEDS * 3


def test_weights_are_taken_over_again_and_those_of_others_stay_as_they_are():
    stand_in, models = StandIn(), [build(configuration("rmt")) for _ in range(2)]
    torch.nn.init.normal_(models[1].embedding.weight)
    before = [model.embedding.weight.detach().clone() for model in models]
    for number in (0, 1, 0):
        same = stand_in.with_weights(models[number])
        assert torch.equal(same.embedding.weight, before[number])
        assert same.embedding.weight.dtype == before[number].dtype
    assert all(
        torch.equal(model.embedding.weight, weight) for model, weight in zip(models, before, strict=True)
    )


def test_a_model_that_is_no_plain_one_is_measured_itself():
    class Sharded(SegmentModel):
        """As a model whose class FSDP has changed."""

    model = Sharded(configuration("rmt"))
    assert StandIn().with_weights(model) is model


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_what_is_recorded_for_one_model_serves_the_next_with_its_weights():
    models = [build(configuration("rmt")).float().cuda() for _ in range(3)]
    tokens = torch.randint(0, 5, (2, 6), device="cuda")
    stand_in, recorded = StandIn(), []
    for model in models:
        torch.nn.init.normal_(model.embedding.weight)
        same, state = stand_in.with_weights(model), model.initial_state(2)
        with torch.no_grad():
            for _ in range(3):
                _, (logits,) = worker_of(same, encode)((), state, tokens)
            torch.testing.assert_close(logits, model(tokens, state).logits, rtol=1e-4, atol=1e-4)
        recorded.append(list(worker_of(same, encode).recorder.recordings.values()))
    assert len(recorded[0]) == 1
    assert recorded[0] == recorded[1] == recorded[2]
