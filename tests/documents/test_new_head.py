"""A checkpoint with a head for other labels gets a new one; what does not fit elsewhere is an error."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from rmt.documents.lora import with_lora
from rmt.documents.pretrained import PretrainedSource
from rmt.documents.tuned import with_new_head
from rmt.errors import ConfigError
from rmt.hf import add_memory
from tests.documents.tiny import tiny_finetune, write_backbone, write_documents
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

GOES_ON = "it goes on with"


def saved(folder, name, head, **settings):
    """A folder with a tiny model."""
    model = plain(name, head, vocab_size=len(tokenizer()), **settings).float()
    model.save_pretrained(folder)
    return PretrainedSource("backbone", str(folder))


@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta"])
@pytest.mark.parametrize("labels", [1, 2, 3])
def test_a_head_for_other_labels_is_made_anew(name, labels, tmp_path, caplog):
    source = saved(tmp_path, name, "ForSequenceClassification", num_labels=2)
    auto = transformers.AutoModelForSequenceClassification
    with caplog.at_level("INFO"):
        model, _ = with_new_head(source, auto, {"num_labels": labels})
    is_new = f"the head of {tmp_path} has 2 labels, so a new one is learned" in caplog.messages
    assert (model.num_labels, is_new) == (labels, labels != 2)
    assert all(bool(weight.isfinite().all()) for weight in model.parameters())


@pytest.mark.parametrize("labels", ["xyz", "abc", "LABEL"])
def test_a_head_that_goes_on_with_labels_of_other_names_says_so(labels, tmp_path, caplog):
    stored = {} if labels == "LABEL" else {"id2label": dict(enumerate("abc"))}
    source = saved(tmp_path, "bert", "ForSequenceClassification", num_labels=3, **stored)
    options = {"num_labels": 3, "id2label": dict(enumerate("abc" if labels == "abc" else "xyz"))}
    with caplog.at_level("INFO"):
        with_new_head(source, transformers.AutoModelForSequenceClassification, options)
    old = ", ".join(stored.get("id2label", {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}).values())
    said = f"the head of {tmp_path} has labels {old}; it goes on with x, y, z"
    assert [line for line in caplog.messages if GOES_ON in line] == ([] if labels == "abc" else [said])


@pytest.mark.parametrize(
    ("name", "head", "auto"),
    [
        ("bert", "Model", "AutoModelForSequenceClassification"),
        ("t5", "ForConditionalGeneration", "AutoModelForSeq2SeqLM"),
    ],
)
def test_a_backbone_without_a_head_for_labels_has_none_to_tell_of(name, head, auto, tmp_path, caplog):
    options = {"num_labels": 2, "id2label": dict(enumerate("xy"))}
    with caplog.at_level("INFO"):
        with_new_head(saved(tmp_path, name, head), getattr(transformers, auto), options)
    assert GOES_ON not in caplog.text


@pytest.mark.parametrize(
    ("name", "head", "auto", "part"),
    [
        ("bert", "Model", "AutoModelForSequenceClassification", "intermediate.dense.weight"),
        ("bert", "ForSequenceClassification", "AutoModelForSequenceClassification", "query.weight"),
        ("t5", "ForConditionalGeneration", "AutoModelForSeq2SeqLM", "block.0.layer.0.SelfAttention.q"),
    ],
)
def test_weights_of_another_shape_elsewhere_are_refused(name, head, auto, part, tmp_path):
    source = saved(tmp_path, name, head)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    key = next(key for key in weights if part in key)
    save_file({**weights, key: weights[key][:3].contiguous()}, file, metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=rf"cannot be loaded \(.*{part}.* has the shape \(3, 16\), not"):
        with_new_head(source, getattr(transformers, auto), {})


@pytest.mark.parametrize("name", ["bert", "albert", "electra", "roberta", "distilbert", "gpt2"])
def test_with_lora_all_that_the_checkpoint_did_not_have_is_trained(name, tmp_path):
    head = "ForCausalLM" if name == "gpt2" else "ForMaskedLM"
    source = saved(tmp_path, name, head)
    auto = transformers.AutoModelForSequenceClassification
    model, drawn = with_new_head(source, auto, {"num_labels": 2})
    adapted = with_lora(add_memory(model, memory=2, segment_length=5), 2, drawn=drawn)
    trained = {
        key.replace(".modules_to_save.default", "").removeprefix("base_model.model.")
        for key, parameter in adapted.named_parameters()
        if parameter.requires_grad
    }
    matrices = {key for key in trained if "lora_" in key}
    assert matrices
    assert {key for key in trained - matrices if not key.startswith("memory.")} == drawn
    adapted(torch.tensor([[1, *range(5, 14), 2]]), labels=torch.tensor([1])).loss.backward()


def test_a_pooler_that_is_trained_whole_answers_as_before(tmp_path):
    source = saved(tmp_path, "albert", "ForMaskedLM")
    model, drawn = with_new_head(source, transformers.AutoModelForSequenceClassification, {"num_labels": 2})
    assert "albert.pooler.weight" in drawn
    model = add_memory(model, memory=2, segment_length=5).eval()
    ids = torch.tensor([[1, *range(5, 14), 2]])
    expected = model(ids).logits
    torch.testing.assert_close(with_lora(model, 2, drawn=drawn).eval()(ids).logits, expected)


def test_a_run_learns_from_a_checkpoint_with_other_labels(tmp_path, caplog):
    write_backbone(tmp_path)
    saved(tmp_path / "bert", "bert", "ForSequenceClassification", num_labels=3)
    write_documents(tmp_path / "documents.jsonl")
    with caplog.at_level("INFO"):
        result = tiny_finetune(tmp_path, "run", epochs=0.5)
    assert result["labels"] == ["bad", "good"]
    assert "has 3 labels, so a new one is learned" in caplog.text
