"""Every kind of task, from a table to predictions, with a tiny backbone; and the contenders of memory."""

import json
from pathlib import Path

import pytest
import torch

from rmt.documents.averaged import MeanAnswer
from rmt.documents.config import FinetuneConfig
from rmt.documents.corpus import Columns, load_corpus
from rmt.documents.kinds import TaskSettings
from rmt.documents.lora import merged, with_lora
from rmt.documents.scores import Scoring
from rmt.documents.trainer import groups
from rmt.documents.tuned import make_tuned
from rmt.hf import add_memory
from rmt.stopping import Stopped, handling_signals
from tests.cli.command import rmt
from tests.documents.tiny import (
    Signaller,
    finetune_end,
    finetune_words,
    tiny_finetune,
    write_backbone,
    write_documents,
)
from tests.hf.zoo import SEP, plain, texts

SHORT = "--segments 2 --memory 2 --segment_length 8 --epochs 1 --batch 8 --at_once 4 --device cpu --quiet"
TEXTS = [f"{word} film {'was very ' * (number % 6)}dull" for number in range(12) for word in ("good", "bad")]
ROWS = {
    "multi-label": [{"text": text, "label": text.split()[:2]} for text in TEXTS],
    "regression": [{"text": text, "label": len(text) / 20} for text in TEXTS],
    "token-classification": [
        {"text": text, "label": ["B-A" if word == "film" else "O" for word in text.split()]} for text in TEXTS
    ],
    "question-answering": [{"text": text, "question": "good", "label": "dull"} for text in TEXTS],
}
METRICS = {
    "multi-label": "F1",
    "regression": "mse",
    "token-classification": "F1",
    "question-answering": "F1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    torch.set_default_dtype(torch.float32)
    write_backbone(folder)
    write_documents(folder / "documents.jsonl")
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)


def write(name, rows):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("task", ROWS)
def test_a_task_is_learned_measured_beside_a_constant_answer_and_predicted(folder, capsys, task):
    write("data.jsonl", ROWS[task])
    command = f"finetune data.jsonl --backbone {folder / 'bert'} --task {task} {SHORT} --out run"
    code, out, err = rmt(capsys, command)
    assert code == 0, err
    assert f"test: {METRICS[task]} " in out
    assert " (constant answer " in out
    result = json.loads(Path("run/result.json").read_text())
    assert result["constant"]["test"].keys() == result["metrics"]["test"].keys()
    answer = rmt(capsys, "predict run data.jsonl --device cpu --json")
    assert answer.code == 0, answer.err
    labels = [json.loads(line)["label"] for line in answer.out.splitlines()]
    assert len(labels) == len(TEXTS)
    if task == "token-classification":
        assert [len(tags) for tags in labels] == [len(text.split()) for text in TEXTS]
    elif task == "question-answering":
        assert all(label in text for label, text in zip(labels, TEXTS, strict=True))
    elif task == "regression":
        assert all(isinstance(label, float) for label in labels)
    else:
        assert all(set(names) <= {"good", "bad", "film"} for names in labels)
        lines = rmt(capsys, "predict run data.jsonl --device cpu --segments").out.splitlines()
        assert len([line for line in lines if line.startswith("  segment ")]) > len(TEXTS)


def test_the_score_that_decides_can_be_chosen(folder, tmp_path):
    result = tiny_finetune(folder, str(tmp_path / "run"), metric="accuracy", positive="good", epochs=1)
    assert (result["metric"], result["f1_of"]) == ("accuracy", "good")
    assert result["value"] == result["metrics"]["test"]["accuracy"]


def test_the_mean_answer_is_the_mean_of_the_plain_answers_to_each_segment():
    model = plain("bert", "ForSequenceClassification", problem_type="single_label_classification").double()
    averaged = MeanAnswer(add_memory(model, memory=0, segment_length=5, alignment="left")).eval()
    inputs = texts("bert", 14, 7)
    rows = [row[mask.bool()] for row, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
    expected = []
    for row in rows:
        pieces = row[1:-1].split(5)
        answers = [model(torch.cat([row[:1], piece, torch.tensor([SEP])])[None]).logits for piece in pieces]
        expected.append(torch.cat(answers).mean(0))
    labels = torch.tensor([0, 2])
    output = averaged(**inputs, labels=labels)
    torch.testing.assert_close(output.logits, torch.stack(expected))
    torch.testing.assert_close(
        output.loss, torch.nn.functional.cross_entropy(torch.stack(expected), labels), rtol=1e-6, atol=1e-6
    )


def test_chunk_and_average_is_trained_and_predicts_what_was_measured(folder, capsys):
    words = finetune_words(folder, "mean", memory=0, answer="mean", epochs=1)
    assert rmt(capsys, " ".join(words)).code == 0
    measured = json.loads((folder / "mean" / "result.json").read_text())
    answer = rmt(capsys, f"predict {folder / 'mean'} {folder / 'documents.jsonl'} --device cpu --json")
    rows = [json.loads(line) for line in (folder / "documents.jsonl").read_text().splitlines()]
    labels = {
        row["text"]: json.loads(line)["label"]
        for row, line in zip(rows, answer.out.splitlines(), strict=True)
    }
    test = load_corpus(folder / "documents.jsonl", Columns()).splits["test"]
    right = sum(labels[document.text] == document.label for document in test)
    assert right / len(test) == measured["metrics"]["test"]["accuracy"]


def test_cross_validation_is_a_run_per_fold_and_their_mean(folder, capsys):
    command = " ".join([*finetune_words(folder, "folds", epochs=0.5, evaluate_every=1), "--folds 2 --quiet"])
    code, out, err = rmt(capsys, command)
    assert code == 0, err
    assert "over 2 folds" in out.splitlines()[-1]
    results = [json.loads((folder / "folds" / f"fold_{k}" / "result.json").read_text()) for k in (0, 1)]
    assert [result["config"]["fold"] for result in results] == [0, 1]
    assert sum(result["samples"] for result in results) == 24


def test_lora_trains_matrices_memory_and_head_and_nothing_else():
    model = add_memory(plain("bert", "ForSequenceClassification").float(), memory=2, segment_length=5)
    adapted = with_lora(model, 2)
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    kinds = {"lora_" in name or "memory" in name or "classifier" in name for name in trained}
    assert kinds == {True}
    assert any("memory" in name for name in trained)
    assert any("classifier" in name for name in trained)


def test_merged_matrices_answer_as_those_beside_the_backbone():
    model = add_memory(plain("bert", "ForSequenceClassification").float(), memory=2, segment_length=5)
    adapted = with_lora(model, 2)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
    inputs = texts("bert", 14, 7)
    beside = adapted.eval()(**inputs).logits
    together = merged(adapted).eval()(**inputs).logits
    torch.testing.assert_close(together, beside, rtol=1e-4, atol=1e-4)
    assert type(merged(adapted)).__name__ == "RMTBertForSequenceClassification"


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"lora": 2, "lora_lr": 20.0}, {"memory": 0, "answer": "mean"}, {"curriculum": "segments"}],
    ids=["lora", "mean", "curriculum"],
)
def test_a_variant_that_was_stopped_ends_as_one_that_was_not(folder, tmp_path, settings):
    tiny_finetune(folder, str(tmp_path / "whole"), **settings)
    with handling_signals(), pytest.raises(Stopped):
        tiny_finetune(folder, str(tmp_path / "stopped"), Signaller(3), **settings)
    tiny_finetune(folder, str(tmp_path / "stopped"), **settings)
    assert finetune_end(tmp_path / "stopped") == finetune_end(tmp_path / "whole")


def test_memory_and_lora_have_rates_of_their_own():
    adapted = with_lora(add_memory(plain("bert", "ForSequenceClassification").float(), 2, 5), 2)
    config = FinetuneConfig(backbone="bert", lr=1e-4, memory_lr=3.0, lora=2, lora_lr=20.0)
    rates = [group.get("lr", config.lr) for group in groups(adapted, config)]
    assert rates == [1e-4, 1e-4, pytest.approx(3e-4), pytest.approx(2e-3)]
    assert [len(group["params"]) for group in groups(adapted, config)] == [1, 1, 1, 8]


def test_the_kind_of_memory_can_be_named(folder):
    settings = TaskSettings(labels=["a", "b"], scoring=Scoring("f1"))
    tuned = make_tuned(str(folder / "bert"), None, settings, memory=2, segment_length=8, kind="tokens")
    assert tuned.model.settings.kind == "tokens"
