"""Encoder-decoders write labels word by word, whatever their checkpoint was made to write, and how."""

import json

import pytest
import torch
from transformers import GenerationConfig

from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import Columns, load_corpus
from rmt.documents.finetune import finetune
from rmt.documents.kinds import TaskSettings
from rmt.documents.task import Document
from rmt.documents.tuned import load_tuned, make_tuned
from rmt.errors import ConfigError
from tests.documents.tiny import SETTINGS, FinetuneWatcher, write_documents
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

TEXTS = ["good film", "bad film was the film", "good the film was the film was the film", "bad"]
SUMMARISER = {
    "num_beams": 4,
    "early_stopping": True,
    "length_penalty": 2.0,
    "no_repeat_ngram_size": 1,
    "min_length": 5,
    "max_length": 6,
}


@pytest.fixture
def backbone(tmp_path):
    """The folder of a tiny encoder-decoder that writes long texts with beams."""
    torch.set_default_dtype(torch.float32)
    model = plain("bart", "ForConditionalGeneration", vocab_size=len(tokenizer())).float()
    model.generation_config.update(**SUMMARISER)
    model.save_pretrained(tmp_path / "bart")
    tokenizer().save_pretrained(tmp_path / "bart")
    return tmp_path / "bart"


def predictions(run):
    """What a run says of texts, in a batch."""
    tuned = load_tuned(run, TaskSettings())
    documents = [Document(text, None) for text in TEXTS]
    return tuned.predict(documents, [tuned.task.tokens(document) for document in documents])


@torch.no_grad()
def probability(run, text, label):
    """How probable a label is: the product over its tokens, each with those before it known."""
    tuned = load_tuned(run, TaskSettings())
    ids, target = (tuned.task.tokenizer(words, return_tensors="pt").input_ids for words in (text, label))
    log_probs = tuned.model(input_ids=ids, labels=target).logits.log_softmax(-1)
    return log_probs.gather(2, target[..., None]).sum().exp().item()


def test_a_backbone_that_summarises_with_beams_learns_to_write_labels_without(backbone, tmp_path):
    data, run = str(write_documents(tmp_path / "documents.jsonl")), tmp_path / "run"
    settings = {**SETTINGS, "lr": 2e-2, "epochs": 8, "evaluate_every": 48}
    config = FinetuneConfig(data=data, backbone=str(backbone), **settings)
    finetune(config, load_corpus(data, Columns()), run, FinetuneWatcher())
    answers = predictions(run)
    assert {answer.label for answer in answers} <= {"good", "bad"}
    expected = [probability(run, text, answer.label) for text, answer in zip(TEXTS, answers, strict=True)]
    assert [answer.score for answer in answers] == pytest.approx(expected, rel=1e-4)
    stored = json.loads((run / "model" / "generation_config.json").read_text())
    assert all(stored.get(name) != value for name, value in SUMMARISER.items())
    GenerationConfig.from_pretrained(backbone).save_pretrained(run / "model")  # as an earlier release did
    assert predictions(run) == answers


def test_the_mean_of_answers_that_are_written_is_refused(backbone):
    settings = TaskSettings(labels=["good", "bad"], answer="mean")
    with pytest.raises(ConfigError, match="answer='mean' needs a head, and encoder-decoders write"):
        make_tuned(str(backbone), None, settings, memory=0, segment_length=8, max_segments=2)
