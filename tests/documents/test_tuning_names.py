"""Default names of fine-tuning folders: different runs have different ones, and what is there goes on."""

from pathlib import Path
from typing import Any

import pytest

from rmt.cli import finetune, finetune_language
from rmt.config import from_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.language_config import LanguageConfig
from rmt.documents.naming import member_folder, tuning_folder
from rmt.train.stored import written

SWEEPS = (
    "--memory 4",
    "--segments 2",
    "--segments 1 --memory 0",
    "--memory 0 --answer mean",
    "--kind associative",
    "--depth 1",
    "--lr 1e-4",
    "--memory_lr 3",
    "--lora 8",
    "--lora 8 --lora_lr 20",
    "--segment_length 128",
    "--curriculum segments",
    "--epochs 3",
    "--batch 8",
    "--warmup 0",
    "--task regression --label grade",
    "--folds 5",
    "--folds 5 --fold 2",
    "--precision 64-true",
    "--seed 1",
    "--seeds 3",
)
LANGUAGE_SWEEPS = ("--memory 4", "--segments 3", "--tokens 1000", "--lora 0", "--lr 0.01", "--compare plain")


def config_of(words: str) -> Any:
    argv = ["reviews.csv", "--backbone", "models/bert", *words.split()]
    if "lm" in argv:
        return from_dict(LanguageConfig, finetune_language.COMMAND.collect(argv).settings)
    return from_dict(FinetuneConfig, finetune.COMMAND.collect(argv).settings)


def name_of(words: str) -> str:
    seeds = int(words.partition("--seeds ")[2] or 1)
    return tuning_folder(config_of(words), seeds).name


def test_no_two_runs_of_a_sweep_share_a_folder():
    sweeps = ["", *SWEEPS, *(f"--task lm {words}" for words in ("", *LANGUAGE_SWEEPS))]
    assert len({name_of(words) for words in sweeps}) == len(sweeps)


@pytest.mark.parametrize("words", ["", "--device cpu", "--at_once 2", "--checkpoint", "--evaluate_every 7"])
def test_a_run_with_nothing_special_has_the_plain_name(words):
    assert name_of(words) == "reviews-bert-4-10-0"


def test_a_name_says_what_is_special():
    assert name_of("--depth 1 --lr 1e-4 --seed 2") == "reviews-bert-4-10-depth1-lr0.0001-2"
    assert name_of("--task lm --tokens 1000") == "reviews-bert-lm-5-10-tokens1000-0"
    assert name_of("--folds 5 --seeds 3") == "reviews-bert-4-10-folds5"


@pytest.mark.parametrize(
    ("words", "inside"),
    [
        ("--lr 0.01", ""),
        ("--lr 0.01 --seeds 2", "seed_0"),
        ("--folds 5", "fold_0"),
        ("--task lm --lr 0.01 --seeds 2", "seed_0"),
    ],
)
def test_a_run_that_lies_under_the_former_name_goes_on_there(words, inside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    language = "-lm-5" if "lm" in words else "-4"
    former = Path(f"runs/reviews-bert{language}-10-0")
    (former / inside).mkdir(parents=True)
    config, seeds = config_of(words), 2 if "--seeds" in words else 1
    first = next(finetune.members(config, seeds, former)).config if "lm" not in words else config
    (former / inside / "config.yaml").write_text(written(first))
    assert tuning_folder(config, seeds) == former
    assert tuning_folder(config_of(f"{words} --memory 3"), seeds) != former


def test_seeds_lie_in_folders_of_their_own_and_stay_where_an_earlier_release_made_them(tmp_path):
    assert member_folder(tmp_path, 0) == tmp_path / "seed-0"
    (tmp_path / "seed_0").mkdir()
    assert [member_folder(tmp_path, seed).name for seed in (0, 1)] == ["seed_0", "seed-1"]
    folders = [member.folder for member in finetune.members(config_of("--folds 2"), 2, tmp_path)]
    assert [str(folder.relative_to(tmp_path)) for folder in folders] == [
        *("seed_0/fold_0", "seed_0/fold_1", "seed-1/fold_0", "seed-1/fold_1")
    ]
