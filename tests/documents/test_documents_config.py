"""The settings of fine-tuning: named as in training, and known by the names of an older release."""

import pytest

from rmt.config import leaves, to_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.stored import renamed, stored_precision
from rmt.errors import ConfigError
from rmt.train.config import RunConfig

OLD = {"rate": 1e-4, "memory_rate": 2.0, "decay": 0.1, "scale": "free", "precision": "bfloat16", "seed": 3}
# settings of both commands, by the name of training
SISTERS = {
    "lr": "optimizer.lr",
    "weight_decay": "optimizer.weight_decay",
    "clip": "optimizer.clip",
    "warmup": "rate.warmup",
    "depth": "bptt.depth",
    "checkpoint": "bptt.checkpoint",
    "seed": "seed",
    "device": "device",
    "precision": "precision",
}


def test_old_names_are_read_as_the_new_ones():
    new = {"lr": 1e-4, "memory_lr": 2.0, "weight_decay": 0.1, "memory_scale": "free", "seed": 3}
    assert renamed(OLD) == {**new, "precision": "bf16-mixed"}
    assert FinetuneConfig(backbone="bert", **renamed(OLD)).lr == 1e-4


def test_new_names_stay_as_they_are():
    config = to_dict(FinetuneConfig(backbone="bert"))
    assert renamed(config) == config


def test_a_setting_that_training_has_too_has_its_name_and_its_type():
    fine = {leaf.name: leaf for leaf in leaves(FinetuneConfig)}
    run = {leaf.name: leaf for leaf in leaves(RunConfig)}
    for short, dotted in SISTERS.items():
        assert fine[short].type == run[dotted].type
    assert not {"rate", "memory_rate", "decay", "scale"} & fine.keys()


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("precision: bfloat16\n", "bf16-mixed"),
        ("precision: 64-true\n", "64-true"),
        ("precision: auto\n", "auto"),
        ("lr: 0.1\n", "auto"),
        (None, "auto"),
    ],
)
def test_the_number_format_of_a_folder_is_what_it_says_or_auto(tmp_path, text, precision):
    if text is not None:
        (tmp_path / "config.yaml").write_text(text)
    assert stored_precision(tmp_path) == precision


def test_a_number_format_that_does_not_exist_is_named(tmp_path):
    (tmp_path / "config.yaml").write_text("precision: 16\n")
    with pytest.raises(ConfigError, match="precision=16 is not one of: auto, 32-true, bf16-mixed, 64-true"):
        stored_precision(tmp_path)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"warmup": 2.5}, "warmup=2.5 must be a whole number of steps, or a share of them below 1"),
        ({"lr": 0.0}, "lr=0.0 must be above 0"),
        ({"precision": "float32"}, "precision='float32' is not one of: auto, 32-true, bf16-mixed, 64-true"),
        ({"memory": 0}, "segments=4 with memory=0: nothing would come from one segment to the next"),
        ({"metric": "mse"}, "metric='mse' is not one of task='classification': f1, accuracy"),
        ({"task": "regression", "metric": "f1"}, "metric='f1' is not one of task='regression': mse, mae"),
        ({"average": "micro", "positive": "a"}, "average='micro' has no effect with positive='a'"),
        ({"task": "regression", "positive": "a"}, "positive='a' has no effect with task='regression'"),
        ({"task": "question-answering", "average": "micro"}, "average='micro' has no effect with task="),
        ({"question": "asked"}, "question='asked' has no effect with task='classification'"),
        ({"answer": "mean"}, "answer='mean' with memory=10: each segment is answered alone; use --memory 0"),
        ({"answer": "mean", "memory": 0, "segments": 1}, "answer='mean' has no effect with segments=1"),
        ({"task": "token-classification", "curriculum": "segments"}, "curriculum='segments' needs a task"),
        ({"curriculum": "segments", "segments": 1}, "curriculum='segments' has no effect with segments=1"),
        ({"kind": "tokens", "memory": 0, "segments": 1}, "kind='tokens' has no effect with memory=0"),
        ({"depth": 1, "memory": 0, "segments": 1}, "depth=1 has no effect with memory=0; leave it out"),
        ({"depth": 0, "memory": 0, "cache": 4}, "depth=0 has no effect with memory=0; leave it out"),
        ({"layout": "prefix", "memory": 0, "answer": "mean"}, "layout='prefix' has no effect with memory=0"),
        (
            {"memory_scale": "embedding", "memory": 0, "answer": "mean"},
            "memory_scale='embedding' has no effect with memory=0",
        ),
        ({"memory_lr": 3.0, "memory": 0, "segments": 1}, "memory_lr=3.0 has no effect with memory=0"),
        ({"cache": 4, "segments": 1}, "cache=4 has no effect with segments=1; leave it out"),
        ({"lora_lr": 2.0}, "lora_lr=2.0 has no effect without --lora"),
        ({"folds": 1}, "fold=None of folds=1: folds are 2 or more"),
        ({"fold": 0}, "fold=0 of folds=0: folds are 2 or more"),
        ({"folds": 3, "fold": 3}, "fold=3 of folds=3: folds are 2 or more, fold is one of them"),
        ({"backbone": ""}, "backbone is missing: name a pretrained model with --backbone"),
    ],
    ids=str,
)
def test_a_mistake_is_named(settings, line):
    with pytest.raises(ConfigError) as caught:
        FinetuneConfig(**{"backbone": "bert", **settings})
    assert str(caught.value).startswith(line)
