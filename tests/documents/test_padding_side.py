"""A tokenizer that pads on the left, as those of decoders do, changes no label and no answer."""

import json

import pytest
import torch

from rmt.documents.kinds import TaskSettings
from rmt.documents.scores import Scoring
from rmt.documents.task import Document
from rmt.documents.tuned import make_tuned
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

TEXTS = ["good film", "the film was very good and the end was dull", "the end was fine"]


def tuned(folder, task, labels=()):
    """A backbone whose tokenizer was saved with padding on the left, for a task."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    plain("bert", vocab_size=len(tokenizer())).float().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "padding_side": "left"}))
    settings = TaskSettings(task, labels, Scoring("f1"))
    return make_tuned(str(folder), None, settings, memory=2, segment_length=5, max_segments=3)


@pytest.mark.parametrize("task", ["token-classification", "question-answering"])
def test_an_answer_does_not_depend_on_the_other_texts_of_its_batch(tmp_path, task):
    model = tuned(tmp_path, task, ["A", "B", "O"] if task == "token-classification" else ())
    documents = [Document(text, None, "film was") for text in TEXTS]
    rows = [model.task.tokens(document) for document in documents]
    alone = [model.predict([document], [row])[0] for document, row in zip(documents, rows, strict=True)]
    together = model.predict(documents, rows)
    assert [answer.label for answer in together] == [answer.label for answer in alone]
    assert [answer.score for answer in together] == pytest.approx([answer.score for answer in alone])


def test_the_labels_of_a_batch_are_those_of_its_answers(tmp_path):
    model = tuned(tmp_path, "question-answering")
    rows = [model.task.encode(Document(text, (text.split()[-1], None), "film was")) for text in TEXTS]
    batch = model.task.collator(model.model)(rows)
    spans = zip(batch["input_ids"], batch["start_positions"], batch["end_positions"], strict=True)
    answers = [model.task.tokenizer.decode(ids[first : last + 1]) for ids, first, last in spans]
    assert answers == [text.split()[-1] for text in TEXTS]


def test_the_tags_of_a_batch_are_those_of_its_words(tmp_path):
    model = tuned(tmp_path, "token-classification", sorted({word for text in TEXTS for word in text.split()}))
    rows = [model.task.encode(Document(text, tuple(text.split()))) for text in TEXTS]
    batch = model.task.collator(model.model)(rows)
    for ids, labels, text in zip(batch["input_ids"], batch["labels"], TEXTS, strict=True):
        tagged = labels >= 0
        assert model.task.tokenizer.decode(ids[tagged]) == text
        assert [model.task.labels[tag] for tag in labels[tagged]] == text.split()
