"""Which segments decided: those without which the answer is less probable, and no others."""

from types import SimpleNamespace

import pytest
import torch

from rmt.documents.deciding import segment_weights
from rmt.documents.kinds import KINDS, kind_for
from rmt.documents.scores import Scoring
from rmt.documents.task import Document
from rmt.documents.tuned import TunedModel
from rmt.errors import ConfigError
from rmt.hf.settings import MemorySettings
from tests.hf.tokens import WORDS, tokenizer

GOOD, BAD = WORDS.index("good"), WORDS.index("bad")


class Counting(torch.nn.Module):
    """Counts good and bad words of a text, wherever they are."""

    def __init__(self, settings, outputs):
        super().__init__()
        self.settings, self.outputs = settings, outputs
        self.gain = torch.nn.Parameter(torch.ones(()))

    def forward(self, input_ids, attention_mask=None):
        counts = torch.stack([(input_ids == word).sum(1) for word in (BAD, GOOD)], dim=1)
        return SimpleNamespace(logits=self.gain * counts[:, -self.outputs :].double())


def tuned(task, alignment="left", max_segments=None):
    kind, labels = KINDS[task], ["bad", "good"]
    settings = MemorySettings(
        segment_length=3,
        prefix=1,
        suffix=1,
        alignment=alignment,
        max_segments=max_segments,
        overlong="truncate" if max_segments else "error",
    )
    outputs = 1 if task == "regression" else 2
    scoring = Scoring(kind.metrics[0])
    return TunedModel(
        Counting(settings, outputs), kind(labels=labels, scoring=scoring, tokenizer=tokenizer())
    )


def weights(model, text, **options):
    row = model.task.tokens(Document(text, None))
    return segment_weights(model, row, **options)


@pytest.mark.parametrize("task", ["classification", "multi-label", "regression"])
def test_only_segments_that_hold_what_decides_have_weight(task):
    found = weights(tuned(task), "the film was good good film was dull", at_once=2)
    assert [segment.text for segment in found] == ["the film was", "good good film", "was dull"]
    first, second, third = (segment.weight for segment in found)
    assert (first, third) == (0, 0)
    assert second > 0.1


def test_a_segment_against_the_answer_has_a_weight_below_zero():
    found = weights(tuned("classification"), "good good film bad film was")
    assert found[0].weight > 0 > found[1].weight


def test_segments_are_those_of_the_model():
    right = weights(tuned("classification", alignment="right"), "good film was dull")
    assert [segment.text for segment in right] == ["good", "film was dull"]
    cut = weights(tuned("classification", max_segments=1), "good film was dull")
    assert [segment.text for segment in cut] == ["good film was"]


def test_what_the_model_does_not_read_decides_nothing():
    model = tuned("classification", max_segments=2)
    read, whole = (
        weights(model, text)
        for text in ("film was good was dull film", "film was good was dull film bad bad")
    )
    assert whole == read


def test_a_text_of_one_segment_is_decided_by_it():
    (only,) = weights(tuned("classification"), "good film")
    assert only.weight == pytest.approx(torch.tensor([0.0, 1.0]).softmax(0)[1].item())


def test_where_no_probability_is_compared_the_question_is_refused():
    kind = kind_for("classification", is_encoder_decoder=True)
    model = tuned("classification")._replace(
        task=kind(labels=["bad", "good"], scoring=Scoring("f1"), tokenizer=tokenizer())
    )
    with pytest.raises(ConfigError, match="segments=True has no effect with task='classification'"):
        weights(model, "good film")
