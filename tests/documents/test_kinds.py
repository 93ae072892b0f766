"""Kinds of task: labels of rows become rows of a model, answers are scored, constants are no secret."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rmt.documents.answering import OUT_OF_REACH, best_span
from rmt.documents.corpus import Columns, Table, corpus, fold_of, load_corpus
from rmt.documents.kinds import KINDS, kind_for
from rmt.documents.scores import Scoring
from rmt.documents.tagging import end_of_text, first_token
from rmt.documents.task import Document
from rmt.errors import ConfigError, DataError
from tests.documents.tiny import write_documents
from tests.hf.tokens import tokenizer


def task(name, labels=(), **scoring):
    kind = KINDS[name]
    return kind(labels=labels, scoring=Scoring(kind.metrics[0], **scoring), tokenizer=tokenizer(limit=10**30))


def test_a_constant_answer_of_uneven_classes_has_the_f1_that_a_model_must_beat():
    """The case that went unseen: 65 documents, 40 of them positive."""
    positive = task("classification", ["false", "true"], positive=1)
    rows = [{"labels": 1}] * 40 + [{"labels": 0}] * 25
    assert positive.constant_scores(rows, rows) == {
        "f1": pytest.approx(80 / 105),
        "accuracy": pytest.approx(40 / 65),
    }
    assert task("classification", ["false", "true"]).constant_scores(rows, rows)["f1"] == pytest.approx(
        40 / 105
    )


@pytest.mark.parametrize(("few", "warned"), [(20, False), (14, False), (9, True)])
def test_uneven_classes_are_told(few, warned):
    rows = [{"labels": 1}] * 20 + [{"labels": 0}] * few
    line = task("classification", ["false", "true"]).balance(rows)
    assert bool(line) == warned
    assert not warned or line.startswith(
        "classes are uneven: 20 of 29 training documents are 'true' and 9 are 'false'"
    )


def test_classes_are_rows_with_a_number():
    tuned = task("classification", ["false", "true"])
    row = tuned.encode(Document("good film", "true"))
    assert (row["input_ids"], row["labels"]) == ([1, 5, 12, 2], 1)
    logits = np.array([[0.0, 1.0], [3.0, 2.0]])
    assert tuned.score(logits, np.array([1, 1])) == {"f1": pytest.approx(1 / 3), "accuracy": 0.5}


def test_sets_of_classes_are_rows_of_ones_and_noughts():
    tuned = task("multi-label", ["a", "b", "c"])
    assert tuned.label_of("c, a,", "") == tuned.label_of(["a", "c"], "") == ("a", "c")
    row = tuned.encode(Document("good", ("a", "c")))
    assert row["labels"] == [1.0, 0.0, 1.0]
    scores = tuned.score(np.array([[1.0, -1, 2], [-1, -1, 3]]), np.array([[1.0, 0, 1], [0, 1, 1]]))
    assert scores == {"f1": pytest.approx(2 / 3), "accuracy": 0.5}
    rows = [row, row, {"labels": [0.0, 1.0, 0.0]}]
    assert tuned.constant_scores(rows, rows)["accuracy"] == pytest.approx(2 / 3)


def test_numbers_are_scored_by_their_errors():
    tuned = task("regression")
    assert tuned.encode(Document("good", tuned.label_of("2.5", "")))["labels"] == 2.5
    assert tuned.score(np.array([[1.0], [2.0]]), np.array([1.0, 4.0]))["mse"] == 2.0
    rows = [{"labels": 1.0}, {"labels": 3.0}]
    assert tuned.constant_scores(rows, rows) == {"mse": 1.0, "mae": 1.0, "pearson": 0.0}
    with pytest.raises(DataError, match="file: row 3 has the label 'warm', which is no number"):
        tuned.label_of("warm", "file: row 3")
    with pytest.raises(DataError, match=r"row 3 has the label <number of .*, which is no number"):
        tuned.label_of(10**5000, "file: row 3")


def test_words_have_tags_and_special_tokens_have_none():
    tuned = task("token-classification", ["B-A", "O"])
    row = tuned.encode(Document("good film was", ("B-A", "O", "O")))
    assert row["labels"] == [-100, 0, 1, 1, -100]
    logits = np.zeros((1, 5, 2))
    logits[0, 1:, 1] = 1
    assert tuned.score(logits, np.array([row["labels"]])) == {
        "f1": pytest.approx(0.4),
        "accuracy": pytest.approx(2 / 3),
        "entity_f1": 0.0,
    }
    assert tuned.fitted(row, limit=4, suffix=1)["labels"] == [-100, 0, 1, -100]
    assert tuned.fitted(row, limit=4, suffix=1)["input_ids"] == [1, 5, 12, 2]
    with pytest.raises(DataError, match="a document of 2 words has 3 tags"):
        tuned.encode(Document("good film", ("O", "O", "O")))


def test_a_document_that_was_cut_has_a_tag_for_each_word_that_was_read():
    tags, words = task("token-classification", ["O", "NAME"]), ["good"] * 9
    document = Document(" ".join(words), None)
    row = tags.fitted(tags.tokens(document), 6, 1)  # [CLS], four words, [SEP]
    logits = torch.zeros(1, 8, 2)  # of a batch with a longer row
    inputs = {"attention_mask": torch.tensor([[1] * len(row["input_ids"]) + [0, 0]])}
    (answer,) = tags.predictions(SimpleNamespace(logits=logits), inputs, [document])
    assert answer.label == ["O"] * 4


def test_where_a_text_ends_in_a_row():
    whole = [None, 0, 1, 1, 2, None, None]
    assert [end_of_text(whole, count) for count in (9, 7, 6, 4)] == [9, 7, 4, 2]


def test_a_class_without_a_name_and_one_that_cannot_be_written_are_refused():
    with pytest.raises(DataError, match="row 3 has an empty label; fill it"):
        KINDS["classification"].label_of("  ", "file: row 3")
    written = kind_for("classification", is_encoder_decoder=True)
    writes = written(labels=("good", "zzz"), scoring=Scoring("f1"), tokenizer=tokenizer(limit=10**30))
    assert writes.truth(writes.encode(Document("the film", "good"))) == 0
    with pytest.raises(DataError, match=r"label='zzz' becomes .* in the backbone's tokens"):
        writes.encode(Document("the film", "zzz"))


def test_a_word_without_a_token_is_named():
    assert first_token([None, 0, 0, 2, None], 2, "good") == 3
    with pytest.raises(DataError, match="word 2, '\\\\u200b', has no token"):
        first_token([None, 0, 0, 2, None], 1, "\u200b")


def test_answers_are_spans_behind_the_question():
    tuned = task("question-answering")
    document = Document("the film was good", tuned.label_of("was good", ""), "film was")
    row = tuned.encode(document)
    assert row["input_ids"] == [1, 12, 13, 2, 11, 12, 13, 5, 2]
    assert (row["start_positions"], row["end_positions"]) == (6, 7)
    squad = {"text": ["film"], "answer_start": [4]}
    assert tuned.span(document._replace(label=tuned.label_of(squad, ""))) == (5, 5)
    none = {"text": [], "answer_start": []}
    assert tuned.span(document._replace(label=tuned.label_of(none, ""))) == (0, 0)
    assert tuned.fitted(row, limit=7, suffix=1)["start_positions"] == OUT_OF_REACH
    for odd in (
        {"text": 1},
        {"text": ["film"], "answer_start": 4},
        {"text": ["film"], "answer_start": ["x"]},
    ):
        with pytest.raises(DataError, match=r"row 3 has an answer that is none.*give text and answer_start"):
            tuned.label_of(odd, "file: row 3")
    with pytest.raises(DataError, match="the answer 'bad' does not stand in its text"):
        tuned.encode(document._replace(label=("bad", None)))


def test_the_best_span_is_the_best_of_all_spans():
    draw = np.random.default_rng(0)
    starts, ends = draw.normal(size=40), draw.normal(size=40)
    every = {(a, b): starts[a] + ends[b] for a in range(40) for b in range(a, min(40, a + 30))}
    assert best_span(starts, ends)[0] == max(every, key=every.get)


def test_a_constant_answer_to_questions_is_none_or_the_usual_place():
    tuned = task("question-answering")
    rows = [{"start_positions": span[0], "end_positions": span[1]} for span in ((0, 0), (4, 5), (4, 5))]
    assert tuned.constant_scores(rows, rows)["exact"] == pytest.approx(2 / 3)


def test_encoder_decoders_write_classes_and_nothing_else():
    assert kind_for("classification", is_encoder_decoder=True).head == "AutoModelForSeq2SeqLM"
    with pytest.raises(ConfigError, match="task='regression' needs a head, and encoder-decoders write"):
        kind_for("regression", is_encoder_decoder=True)


def test_rows_of_a_table_become_documents(tmp_path):
    columns = Columns(question="asked")
    table = Table(tmp_path / "data.jsonl", columns, KINDS["question-answering"])
    rows = [{"text": ["good", "film"], "label": "film", "asked": "what"}]
    assert list(table.documents(rows)) == [Document("good film", ("film", None), "what")]
    with pytest.raises(DataError, match="row 1 has no column 'asked'; it has text, label"):
        list(table.documents([{"text": "good", "label": "good"}]))


def test_numbers_need_no_classes_and_folders_of_texts_are_classes(tmp_path):
    documents = [Document(f"text {number}", number / 2) for number in range(20)]
    made = corpus({"train": documents}, KINDS["regression"])
    assert {split: len(members) for split, members in made.splits.items()} == {
        "train": 16,
        "valid": 2,
        "test": 2,
    }
    assert made.labels == []
    (tmp_path / "good").mkdir()
    with pytest.raises(DataError, match="folders of texts are classes; task='regression' needs a table"):
        load_corpus(tmp_path, Columns(), KINDS["regression"])


def test_folds_test_each_document_once_and_never_train_on_it(tmp_path):
    kind = KINDS["classification"]
    whole = load_corpus(write_documents(tmp_path / "documents.jsonl", 46), Columns(), kind)
    folds = [fold_of(whole, number, 5, kind) for number in range(5)]
    everything = sorted(document for split in whole.splits.values() for document in split)
    assert sorted(document for fold in folds for document in fold.splits["test"]) == everything
    for fold in folds:
        assert sorted(document for split in fold.splits.values() for document in split) == everything
        labels = [document.label for document in fold.splits["test"]]
        assert abs(labels.count("good") - labels.count("bad")) <= 1
    with pytest.raises(DataError, match="23 documents: too few for folds=30"):
        fold_of(whole, 0, 30, kind)
