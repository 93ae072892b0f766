"""`rmt train text` and `rmt evaluate` of it: language modelling from the command line."""

import json
import re
import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch

from rmt import SegmentModel, Session, load
from rmt.bench.text import made_text
from rmt.cli import progress
from rmt.config import leaves, value_of
from rmt.evaluate.perplexity import perplexity, with_cache
from rmt.text.task import Text
from rmt.train.config import RunConfig
from tests.cli.book import TRAIN, write_book
from tests.cli.command import TRAIN as SEQUENCES
from tests.cli.command import printed, rmt

FORMATS = ("32-true", "bf16-mixed", "64-true")
score, logits = Session.score, Session.logits
BOTH = f"{TRAIN} --model transformer_xl_rmt --cache 6"
# the sizes of the paper: what --print_config has to say
SIZES = {
    "enwik8-base": {
        "model.layers": 12,
        "model.heads": 8,
        "model.head_width": 64,
        "model.width": 512,
        "model.inner_width": 2048,
        "model.cutoffs": (),
        "task.segment_length": 128,
        "train.batch": 64,
        "train.steps": 400_000,
    },
    "wt103-base": {
        "model.layers": 16,
        "model.heads": 10,
        "model.head_width": 41,
        "model.width": 410,
        "model.inner_width": 2100,
        "model.cutoffs": (20_000, 40_000, 200_000),
        "model.div_val": 1,
        "task.segment_length": 150,
        "train.batch": 60,
        "train.steps": 200_000,
    },
}
PAPER = {
    "model.norm": "post",
    "model.dropout": 0.1,
    "model.memory.size": 10,
    "model.memory.init": "identical",
    "model.memory.sees_cache": False,
    "bptt.schedule": "sliding",
    "bptt.depth": 2,
    "bptt.replay_from": "latest",
    "optimizer.name": "adam",
    "optimizer.lr": 2.5e-4,
    "optimizer.beta2": 0.999,
    "optimizer.clip": 0.25,
    "rate.schedule": "cosine",
    "rate.warmup": 0,
    "train.evaluate_every": 4000,
}
VOCABULARIES = {"enwik8-base": 204, "wt103-base": 267_735}
# parameters of the published models without memory: all is in the table, its biases, three vectors and biases
# of clusters, the layers, and two biases of attention that the layers share
PARAMETERS = {"enwik8-base": 41_055_436, "wt103-base": 151_107_538}


@pytest.fixture(autouse=True)
def book() -> None:
    write_book()


def test_a_text_is_prepared_trained_and_measured(capsys, tmp_path):
    code, out, err = rmt(capsys, TRAIN)
    assert (code, err) == (0, "rmt: book.txt is prepared in data/book.txt-bytes\n")
    lines = out.splitlines()
    assert lines.pop(0) == "rmt  32-true on the CPU"
    assert re.fullmatch(
        r"rmt  step 2  loss \d\.\d{3}  perplexity \d+\.\d{3}  bits per character \d\.\d{4}", lines[0]
    )
    assert lines[1].startswith("rmt  step 4  loss ")
    folder = lines[2].removeprefix("finished: ")
    assert re.fullmatch(r"runs/text-book\.txt-rmt-modern-segment_length8-\S+-steps4-0", folder)
    assert re.match(r"perplexity \d+\.\d{3}  bits per character \d\.\d{4} on 96 test tokens", lines[3])
    assert lines[4].startswith("4 steps, 48 samples, ")
    assert lines[4].endswith(" 384 tokens")
    assert (tmp_path / "data" / "book.txt-bytes" / "train.bin").stat().st_size == 2 * 1800
    result = json.loads((tmp_path / folder / "result.json").read_text())
    assert (result["task"], result["metric"], result["split"]) == ("text", "bits_per_character", "test")
    assert result["value"] == result["metrics"]["bits_per_character"]
    assert result["metrics"]["tokens"] == 4 * (100 // 4 - 1)


def test_words_are_judged_by_perplexity_and_nothing_is_said_of_characters(capsys, tmp_path):
    words = "--task.tokens words --task.segment_length 4 --batch 2"
    code, out, err = rmt(capsys, f"{TRAIN} {words} --out run")
    assert (code, err) == (0, "rmt: book.txt is prepared in data/book.txt-words\n")
    assert "bits" not in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metric"] == "perplexity"
    assert result["value"] == result["metrics"]["perplexity"]
    assert set(result["metrics"]) == {"loss", "perplexity", "tokens"}


def test_the_best_checkpoint_is_the_one_of_the_lowest_metric_and_a_target_is_reached_from_above(
    capsys, tmp_path
):
    learning = "--steps 60 --optimizer.lr 0.03 --train.evaluate_every 5 --rate.warmup 0"
    assert rmt(capsys, f"{TRAIN} {learning} --target 3.8 --out run --quiet").code == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    found = {line["step"]: line["bits_per_character"] for line in lines if line.get("split") == "valid"}
    best = (tmp_path / "run" / "checkpoints" / "best").read_text().strip()
    assert best == f"step_{min(found, key=found.get)}"
    assert max(found) < 60
    assert [step for step, bits in found.items() if bits <= 3.8] == [max(found)]


def test_a_finished_run_says_so_and_an_interrupted_one_goes_on(capsys, monkeypatch):
    def interrupt(self, record):
        if record["step"] == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(progress.Lines, "logged", interrupt)
        assert rmt(capsys, f"{TRAIN} --out run").code == 130
    resumed = rmt(capsys, f"{TRAIN} --out run")
    assert resumed.code == 0
    assert resumed.out.startswith("rmt  resuming at step 2\nrmt  32-true on the CPU\n")
    again = rmt(capsys, f"{TRAIN} --out run")
    assert again.out.splitlines()[0] == "already finished: run"
    assert again.out.splitlines()[1:] == resumed.out.splitlines()[-2:]


def test_a_run_is_measured_as_it_was_and_with_another_length_split_batch_and_cache(capsys):
    assert rmt(capsys, f"{BOTH} --out run --quiet").code == 0
    model, task = load("run"), Text(data="book.txt")
    for options, expected in {
        "": (model, "test", 4, 8),
        "--split valid": (model, "valid", 4, 8),
        "--split train --batch 3": (model, "train", 3, 8),
        "--segment_length 13": (model, "test", 4, 13),
        "--cache 20": (with_cache(model, 20), "test", 4, 8),
        "--cache 1 --segment_length 50 --split valid --batch 1": (with_cache(model, 1), "valid", 1, 50),
    }.items():
        code, out, err = rmt(capsys, f"evaluate run --json {options}")
        assert (code, err) == (0, "")
        measured, split, batch, length = expected
        assert json.loads(out) == pytest.approx(perplexity(measured, task.lanes(split, batch), length))
    result = json.loads(Path("run/result.json").read_text())
    assert json.loads(rmt(capsys, "evaluate run --json").out) == pytest.approx(result["metrics"])


def test_an_evaluation_is_printed_in_lines(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    code, out, err = rmt(capsys, "evaluate run")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [
        "loss",
        "perplexity",
        "bits_per_character",
        "tokens",
    ]
    assert out.splitlines()[-1].split() == ["tokens", "96"]


def test_a_cache_for_evaluation_is_used_in_training_and_after_it(capsys):
    assert rmt(capsys, f"{BOTH} --train.evaluate_cache 20 --out run --quiet").code == 0
    expected = perplexity(with_cache(load("run"), 20), Text(data="book.txt").lanes("test", 4), 8)
    assert json.loads(Path("run/result.json").read_text())["metrics"] == pytest.approx(expected)
    assert json.loads(rmt(capsys, "evaluate run --json").out) == pytest.approx(expected)


@pytest.mark.parametrize("size", SIZES)
def test_a_base_size_with_the_paper_recipe_is_what_the_published_runs_did(capsys, size):
    config = printed(capsys, f"train text --data {described(size)} --size {size} --recipe paper")
    assert {name: value_of(config, name) for name in SIZES[size] | PAPER} == SIZES[size] | PAPER
    assert config.model.vocabulary == VOCABULARIES[size]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("recipe", ["paper", "modern"])
def test_a_base_size_has_the_parameters_of_the_published_model(capsys, size, recipe):
    """To the last one; modern has a norm behind its layers, 2 · width, and a gain; memory tokens are more."""
    command = f"train text --data {described(size)} --size {size} --recipe {recipe}"
    beside = 3 * SIZES[size]["model.width"] if recipe == "modern" else 0
    assert parameters(printed(capsys, f"{command} --model baseline")) == PARAMETERS[size] + beside
    memory = 10 * SIZES[size]["model.width"]
    assert parameters(printed(capsys, command)) == PARAMETERS[size] + beside + memory


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", ["gpu", "cpu"])
def test_a_scale_makes_model_and_budget_smaller_and_changes_nothing_else(capsys, size, scale):
    command = f"train text --data {described(size)} --size {size} --recipe paper"
    full, less = printed(capsys, command), printed(capsys, f"{command} --scale {scale}")
    changed = {
        leaf.name for leaf in leaves(RunConfig) if value_of(full, leaf.name) != value_of(less, leaf.name)
    }
    smaller = {f"model.{name}" for name in ("layers", "heads", "head_width", "width", "inner_width")}
    smaller |= {"train.batch", "train.steps", "train.evaluate_every", "train.save_every"}
    assert changed <= smaller | {"scale", "threads"}
    assert all(value_of(less, name) <= value_of(full, name) for name in smaller)
    assert parameters(less) < parameters(full)
    assert {"model.layers", "model.width", "train.batch", "train.steps"} <= changed
    assert less.threads == (scale == "cpu")


def test_a_scaled_base_size_trains(capsys):
    scaled = "--size wt103-base --scale cpu --recipe paper --task.segment_length 8 --batch 4 --steps 2"
    code, out, err = rmt(capsys, f"train text --data book.txt {scaled} --device cpu --quiet")
    assert (code, err) == (0, "rmt: book.txt is prepared in data/book.txt-bytes\n")
    assert "perplexity" in out


def test_cutoffs_beyond_the_vocabulary_are_dropped_unless_they_are_named(capsys):
    for vocabulary, expected in {
        267_735: (20_000, 40_000, 200_000),
        200_000: (20_000, 40_000),
        33_278: (20_000,),
        20_000: (),
        204: (),
    }.items():
        command = f"train text --data {described('wt103-base', vocabulary)} --size wt103-base"
        config = printed(capsys, command)
        assert (config.model.cutoffs, config.model.vocabulary) == (expected, vocabulary)
        assert printed(capsys, f"{command} --model.cutoffs 50,100").model.cutoffs == (50, 100)


def test_memory_that_predicts_has_one_token_more(capsys):
    command = f"train text --data {described('enwik8-base')}"
    plain, predicting = printed(capsys, command), printed(capsys, f"{command} --train.memory_loss 0.01")
    assert (plain.model.vocabulary, plain.model.memory.predicts) == (204, False)
    assert (predicting.model.vocabulary, predicting.model.memory.predicts) == (205, True)
    assert rmt(capsys, f"{TRAIN} --train.memory_loss 0.01 --out run --quiet").code == 0
    assert (
        rmt(capsys, f"{TRAIN} --train.memory_loss 0.01 --model.cutoffs 4,9 --out clusters --quiet").code == 0
    )


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--recipe paper --model transformer_xl_rmt --task.reset document --task.segment_length 9",
        "--size wt103-base --model transformer_xl --train.evaluate_cache 7",
        "--size enwik8-base --scale gpu --train.memory_loss 0.01 --schedule sliding --depth 1",
        "--model memory_transformer --task.reset 3 --model.cutoffs 4,9 --model.div_val 2",
        "--model baseline --task.tokens characters --target 1.5",
    ],
)
def test_a_printed_configuration_is_the_same_configuration(capsys, options):
    code, out, err = rmt(capsys, f"train text --data book.txt {options} --print_config")
    tokens = "characters" if "characters" in options else "bytes"
    assert (code, err) == (0, f"rmt: book.txt is prepared in data/book.txt-{tokens}\n")
    Path("config.yaml").write_text(out)
    assert rmt(capsys, "train --config config.yaml --print_config") == (0, out, "")


@cache
def described(size: str, vocabulary: int | None = None) -> str:
    """A corpus of a few words with as many symbols as the published one has."""
    return made_text(vocabulary or VOCABULARIES[size], Path(tempfile.mkdtemp()), count=1200)


def parameters(config: RunConfig) -> int:
    """How many parameters the model has, without making room for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in SegmentModel(config.model).parameters())


def test_a_run_is_measured_in_its_own_number_format_or_another(capsys):
    assert rmt(capsys, f"{TRAIN} --precision 64-true --out run").code == 0
    losses = {
        name: json.loads(rmt(capsys, f"evaluate run --device cpu --json {flag}").out)["loss"]
        for name, flag in {"auto": ""}.items() | {(name, f"--precision {name}") for name in FORMATS}
    }
    assert losses["auto"] == losses["64-true"]
    assert losses["32-true"] == pytest.approx(losses["64-true"], rel=1e-5)
    assert losses["bf16-mixed"] == pytest.approx(losses["64-true"], rel=1e-2)
    assert len(set(losses.values())) == 3


def test_a_run_of_bfloat16_is_measured_in_float32_on_a_cpu(capsys):
    assert rmt(capsys, f"{TRAIN} --precision bf16-mixed --out run").code == 0
    auto, single, half = (
        json.loads(rmt(capsys, f"evaluate run --device cpu --json --precision {name}").out)["loss"]
        for name in ("auto", "32-true", "bf16-mixed")
    )
    assert auto == single != half
    result = json.loads(Path("run/result.json").read_text())
    assert half == result["metrics"]["loss"]


@pytest.mark.parametrize("command", ["stream run short.txt --json", "generate run --prompt the --tokens 3"])
def test_a_session_of_a_run_computes_in_the_number_format_that_is_asked_for(capsys, monkeypatch, command):
    assert rmt(capsys, f"{TRAIN} --precision bf16-mixed --out run").code == 0
    Path("short.txt").write_text(Path("book.txt").read_text()[:99])
    sessions = []
    monkeypatch.setattr(Session, "score", lambda self: sessions.append(self) or score(self))
    monkeypatch.setattr(Session, "logits", lambda self: sessions.append(self) or logits(self))
    for name in ("auto", *FORMATS):
        answer = rmt(capsys, f"{command} --device cpu --precision {name}")
        assert answer.code == 0, answer.err
        weights = next(sessions[-1].model.parameters()).dtype
        assert weights == (torch.float64 if name == "64-true" else torch.float32)
        assert sessions[-1].precision == ("32-true" if name == "auto" else name)


def test_answers_are_generated_in_the_number_format_that_is_asked_for(capsys):
    assert rmt(capsys, f"{SEQUENCES} --precision bf16-mixed --out run").code == 0
    losses = {
        name: json.loads(rmt(capsys, f"evaluate run --device cpu --json --precision {name}").out)["loss"]
        for name in ("auto", *FORMATS)
    }
    assert losses["auto"] == losses["32-true"] != losses["64-true"]
    assert losses["32-true"] == pytest.approx(losses["64-true"], rel=1e-5)
    assert losses["bf16-mixed"] == pytest.approx(losses["64-true"], rel=1e-2)
    assert losses["bf16-mixed"] != losses["32-true"]
    assert losses["bf16-mixed"] == json.loads(Path("run/result.json").read_text())["metrics"]["loss"]
