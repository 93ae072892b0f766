"""Answers to questions: what is out of reach teaches nothing, and what is scored is what is predicted."""

import json
import random

import pytest
import torch
from transformers.loss.loss_utils import ForQuestionAnsweringLoss

from rmt.documents.answering import MARGINS, OUT_OF_REACH
from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import Columns, load_corpus
from rmt.documents.finetune import finetune, measured_by
from rmt.documents.job import FinetuneJob
from rmt.documents.kinds import KINDS, TaskSettings
from rmt.documents.scores import Scoring
from rmt.documents.task import Document
from rmt.documents.trainer import build_trainer, position_loss
from rmt.documents.tuned import make_tuned
from rmt.stopping import Stopped, handling_signals
from rmt.train.processes import Processes
from tests.documents.tiny import (
    SETTINGS,
    FinetuneWatcher,
    Signaller,
    finetune_end,
    write_backbone,
)

TASK = "question-answering"
WORDS = ["good", "bad", "true", "false", "dull", "fine", "the", "film", "was", "and", "very", "end"]


@pytest.fixture(autouse=True)
def single_precision():
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A backbone, and texts of which every second has its answer behind the last segment."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("answering")
    write_backbone(folder)
    rows = [
        {"text": f"film {'was ' * number}dull {'very ' * 30}fine", "question": "good", "label": label}
        for number in range(12)
        for label in ("dull", "fine")
    ]
    (folder / "documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def tiny_answering(folder, out, watcher=None, **settings):
    """The result of a run of a second that learns to answer."""
    config = FinetuneConfig(
        data=str(folder / "documents.jsonl"),
        backbone=str(folder / "bert"),
        task=TASK,
        **{**SETTINGS, "epochs": 1, **settings},
    )
    corpus = load_corpus(config.data, Columns(), KINDS[TASK])
    return finetune(config, corpus, folder / out, watcher or FinetuneWatcher())[0]


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_part_of_a_batch_whose_answers_are_all_out_of_reach_ends_no_run(folder, tmp_path, at_once):
    tiny_answering(folder, tmp_path / "run", batch=2, at_once=at_once)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(0 <= line["loss"] < 100 for line in lines)  # also of the validation documents


@pytest.mark.parametrize("reached", [0, 1, 3])
def test_the_loss_is_the_mean_over_the_rows_in_reach_and_zero_without_any(reached):
    logits = torch.randn(3, 7, generator=torch.Generator().manual_seed(0)).requires_grad_()
    positions = torch.tensor([2, 0, 6]).where(torch.arange(3) < reached, OUT_OF_REACH)
    loss = position_loss(logits, positions)
    loss.backward()
    if not reached:
        assert loss == 0
        assert not logits.grad.any()
        return
    plain = ForQuestionAnsweringLoss(logits, logits, positions, positions)
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(logits.grad, torch.autograd.grad(plain, logits)[0])


def asked(backbone, draw):
    """A model that was trained for nothing, and questions about texts whose words occur once in each."""
    settings = TaskSettings(TASK, (), Scoring("f1"))
    tuned = make_tuned(str(backbone), None, settings, memory=2, segment_length=4, max_segments=3)
    with torch.no_grad():
        tuned.model.qa_outputs.bias.copy_(torch.tensor([0.5, 0.5]))  # the logits of padding
    texts = [" ".join(draw.sample(WORDS, draw.randint(1, len(WORDS)))) for _ in range(40)]
    return tuned, [Document(text, None, " ".join(draw.sample(WORDS, 2))) for text in texts]


def job_of(tuned, rows, folder, at_once=1):
    """A run before it begins."""
    config = FinetuneConfig(
        backbone="bert", task=TASK, segments=3, batch=at_once, at_once=at_once, device="cpu"
    )
    return FinetuneJob(
        config=config,
        tuned=tuned,
        rows={"train": rows, "valid": rows},
        folder=folder,
        observer=FinetuneWatcher(),
        processes=Processes(torch.device("cpu"), "32-true"),
    )


@pytest.mark.parametrize("at_once", [1, 4, 40])
def test_a_document_whose_answer_is_what_is_predicted_has_a_full_score(folder, tmp_path, at_once):
    """Whatever texts are in its batch, and also where what is predicted is in the question."""
    tuned, documents = asked(folder / "bert", random.Random(0))
    tokens = [tuned.task.tokens(document) for document in documents]
    answers = [
        tuned.predict([document], [row])[0].label for document, row in zip(documents, tokens, strict=True)
    ]
    assert 0 < answers.count("") < len(answers)
    rows = [
        tuned.fitted(tuned.task.encode(document._replace(label=(answer, None))))
        for document, answer in zip(documents, answers, strict=True)
    ]
    trainer = build_trainer(job_of(tuned, rows, tmp_path, at_once))
    assert measured_by(trainer, rows) == {"f1": 1.0, "exact": 1.0}


def test_a_run_of_an_earlier_release_knows_its_documents_again(folder, tmp_path):
    """Its rows did not say where their texts are."""
    tuned, documents = asked(folder / "bert", random.Random(0))
    rows = [tuned.task.encode(document._replace(label=("", None))) for document in documents]
    earlier = [{name: row[name] for name in row if name not in MARGINS} for row in rows]
    assert earlier != rows
    assert job_of(tuned, rows, tmp_path).fingerprint == job_of(tuned, earlier, tmp_path).fingerprint


@pytest.mark.slow
def test_a_run_with_answers_out_of_reach_that_was_stopped_ends_as_one_that_was_not(folder, tmp_path):
    settings = {"epochs": 2, "at_once": 1}
    tiny_answering(folder, tmp_path / "whole", **settings)
    with handling_signals(), pytest.raises(Stopped):
        tiny_answering(folder, tmp_path / "stopped", Signaller(3), **settings)
    tiny_answering(folder, tmp_path / "stopped", **settings)
    assert finetune_end(tmp_path / "stopped") == finetune_end(tmp_path / "whole")
