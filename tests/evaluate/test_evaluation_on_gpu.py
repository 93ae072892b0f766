"""Evaluation on a GPU: in the engine and recorded, as the plain model in bfloat16 to rounding."""

import numpy as np
import pytest
import torch

from rmt.evaluate.evaluate import evaluate
from rmt.evaluate.generate import generate, predict_segment
from rmt.evaluate.perplexity import perplexity
from rmt.infer.work import worker_of
from rmt.tasks.copy import Copy
from rmt.text.lanes import Lanes
from tests.laws.models import VOCABULARY, build, configuration, random_tokens

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
LENGTH = 32
SIZES = {"layers": 2, "heads": 2, "head_width": 16, "width": 32, "inner_width": 64}
KINDS = ("baseline", "rmt", "transformer_xl", "transformer_xl_rmt")
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, 5 * (7 * LENGTH + 9)).astype("<u2")


def model_of(kind, **settings):
    return build(configuration(kind, **SIZES, **settings)).float().cuda()


@pytest.mark.parametrize("cutoffs", [(), (3, 7)], ids=["softmax", "adaptive"])
@pytest.mark.parametrize("kind", KINDS)
def test_perplexity_in_the_engine_is_that_of_the_plain_model_to_rounding(kind, cutoffs):
    model, lanes = model_of(kind, cutoffs=cutoffs), Lanes(TOKENS, 5)
    mixed, exact = (perplexity(model, lanes, LENGTH, precision=name) for name in ("bf16-mixed", "32-true"))
    expected = perplexity(model.cpu(), lanes, LENGTH)
    assert exact["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    assert mixed["loss"] == pytest.approx(expected["loss"], rel=2e-2)
    assert mixed["tokens"] == expected["tokens"]


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_generation_is_the_plain_one(kind):
    model, tokens = model_of(kind), random_tokens(6, 5 * 8 + 3)
    generated = torch.arange(tokens.shape[1]).expand_as(tokens) >= 12
    results = [generate(model, tokens.cuda(), generated.cuda(), 8).cpu() for _ in range(2)]
    assert worker_of(model, predict_segment).recorder.recordings
    expected = generate(model.cpu(), tokens, generated, 8)
    assert torch.equal(results[0], results[1])
    assert (results[0] == expected).double().mean() > 0.99


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_metrics_of_a_task_follow_the_parameters_as_they_change(precision):
    task = Copy(length=8)
    model = model_of("rmt", vocabulary=task.vocabulary)
    for _ in range(2):
        actual = evaluate(model, task, 6, samples=64, batch=32, precision=precision)
        expected = evaluate(build_again(model), task, 6, samples=64, batch=32)
        assert actual["loss"] == pytest.approx(expected["loss"], rel=3e-2)
        with torch.no_grad():
            model.embedding.weight.data.mul_(1.5)


def build_again(model):
    other = build(model.config).float()
    other.load_state_dict(model.state_dict())
    return other
