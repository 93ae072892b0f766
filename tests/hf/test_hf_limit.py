"""A tokenizer's limit is the plain model's: saved with a model that has memory, it has none."""

import json
from pathlib import Path

import huggingface_hub
import pytest
import torch
from transformers import AutoTokenizer, pipeline

import rmt.hf
from tests.hf.tokens import tokenizer
from tests.hf.zoo import remembering

WORDS = ["good", "bad", "fine", "dull"] * 30  # far beyond the limit of 64 tokens
LIMIT = (
    r"the tokenizer in .* cuts texts off behind 64 tokens .*save_pretrained\(folder, tokenizer=tokenizer\)"
)


@pytest.fixture
def tagger():
    torch.set_default_dtype(torch.float32)
    return remembering("bert", "ForTokenClassification", length=20).float()


def tagged(folder):
    """How many words a pipeline made of a folder gives a tag."""
    tag = pipeline("token-classification", model=str(folder))
    return len(tag(" ".join(WORDS)))


def test_a_pipeline_sees_the_whole_text_where_model_and_tokenizer_are_saved_together(tagger, tmp_path):
    words = tokenizer(limit=64)
    tagger.save_pretrained(tmp_path, tokenizer=words)
    assert tagged(tmp_path) == len(WORDS)
    assert words.model_max_length == 64  # what was given stays as it is


def test_a_tokenizer_that_is_in_the_folder_already_loses_its_limit(tagger, tmp_path):
    tokenizer(limit=64).save_pretrained(tmp_path)
    tagger.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length > 10**6
    assert tagged(tmp_path) == len(WORDS)


def test_a_tokenizer_saved_with_its_limit_is_warned_of_when_the_model_is_loaded(tagger, tmp_path):
    tagger.save_pretrained(tmp_path)
    tokenizer(limit=64).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=LIMIT):
        assert tagged(tmp_path) < len(WORDS)


class Hub:
    """A hub without a network: what arrived there, commit by commit."""

    def __init__(self, patch):
        self.commits, self.settings = [], []
        patch.setattr(huggingface_hub.HfApi, "create_repo", self.create_repo)
        patch.setattr(huggingface_hub.HfApi, "create_commit", self.create_commit)
        card = huggingface_hub.ModelCard("A model.")
        patch.setattr(huggingface_hub.ModelCard, "load", lambda *_, **__: card)

    def create_repo(self, name, **settings):
        self.settings.append(settings)
        return huggingface_hub.RepoUrl(f"https://huggingface.co/somebody/{name}")

    def create_commit(self, operations, **settings):
        content = {
            operation.path_in_repo: Path(operation.path_or_fileobj).read_bytes() for operation in operations
        }
        self.commits.append((settings, content))


def test_a_tokenizer_saved_with_a_model_arrives_at_the_hub_without_its_limit(tagger, tmp_path, monkeypatch):
    hub = Hub(monkeypatch)
    folder = tmp_path / "with-memory"
    tagger.save_pretrained(
        folder,
        tokenizer=tokenizer(limit=64),
        push_to_hub=True,
        token="a-token",
        create_pr=True,
        private=True,
    )
    arrived = {name: content for _, files in hub.commits for name, content in files.items()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"} <= set(arrived)
    assert json.loads(arrived["tokenizer_config.json"])["model_max_length"] > 10**6
    assert {settings["repo_id"] for settings, _ in hub.commits} == {"somebody/with-memory"}
    assert {(settings["token"], settings["create_pr"]) for settings, _ in hub.commits} == {("a-token", True)}
    assert [settings["private"] for settings in hub.settings] == [True] * len(hub.settings)
    assert AutoTokenizer.from_pretrained(folder).model_max_length > 10**6


def test_an_upload_that_fails_leaves_a_folder_that_is_whole(tagger, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ConnectionError("no network")

    Hub(monkeypatch)
    monkeypatch.setattr(huggingface_hub.HfApi, "create_commit", refuse)
    with pytest.raises(ConnectionError):
        tagger.save_pretrained(tmp_path, tokenizer=tokenizer(limit=64), push_to_hub=True)
    assert tagged(tmp_path) == len(WORDS)


@pytest.mark.parametrize(("args", "kwargs"), [((False,), {}), ((), {"is_main_process": False})])
def test_only_the_main_process_writes_a_tokenizer(tagger, tmp_path, args, kwargs):
    limited = tmp_path / "limited"
    tokenizer(limit=64).save_pretrained(limited)
    before = (limited / "tokenizer_config.json").read_bytes()
    tagger.save_pretrained(tmp_path / "other", *args, tokenizer=tokenizer(limit=64), **kwargs)
    tagger.save_pretrained(limited, *args, **kwargs)
    assert not list((tmp_path / "other").glob("tokenizer*"))
    assert (limited / "tokenizer_config.json").read_bytes() == before


def test_an_unlimited_tokenizer_serves_a_pipeline_of_objects(tagger):
    tag = pipeline("token-classification", model=tagger, tokenizer=rmt.hf.unlimited(tokenizer(limit=64)))
    assert len(tag(" ".join(WORDS))) == len(WORDS)


@pytest.mark.parametrize("task", ["text-classification", "fill-mask"])
def test_other_pipelines_see_the_whole_text_too(task, tmp_path):
    torch.set_default_dtype(torch.float32)
    head = {"text-classification": "ForSequenceClassification", "fill-mask": "ForMaskedLM"}[task]
    model = remembering("bert", head, length=20, memory=4).float()
    model.save_pretrained(tmp_path, tokenizer=tokenizer(limit=64))
    ask = pipeline(task, model=str(tmp_path))
    text = " ".join(WORDS) + " [MASK]"
    answers = ask(text) if task == "fill-mask" else ask(text, truncation=True, top_k=None)
    others = ask("bad " + text) if task == "fill-mask" else ask("bad " + text, truncation=True, top_k=None)
    assert answers[0]["score"] != others[0]["score"]
