"""`rmt train text` and `rmt evaluate` of it: language modelling from the command line."""

import json
import random
import re
from pathlib import Path

import pytest
import torch
import yaml

from rmt import SegmentModel, load
from rmt.cli import progress
from rmt.config import from_dict, leaves
from rmt.evaluate.perplexity import perplexity, with_cache
from rmt.experiments.run import value_of
from rmt.tasks.prepare import FORMAT
from rmt.tasks.text import Text
from rmt.train.config import RunConfig
from tests.cli.command import TRAIN as SEQUENCES
from tests.cli.command import rmt
from tests.cli.test_bad_input import assert_refused

TINY = (
    "--memory 2 --batch 4 --steps 4 --device cpu --model.layers 1 --model.heads 1 --model.head_width 4 "
    "--model.width 8 --model.inner_width 8 --task.segment_length 8 --train.evaluate_every 2 "
    "--train.log_every 1"
)
TRAIN = f"train text --data book.txt {TINY}"
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
# what the line has to say
REFUSED = {
    "train text": ["data is missing", "--data"],
    "train text --data bok.txt": ["unknown corpus 'bok.txt'", "the path of a text"],
    "train text --data nowhere/book.txt": ["'nowhere/book.txt' does not exist", "name a text file"],
    "train text --data wikitext-2": ["wiki.train.tokens", "run rmt data get wikitext-2"],
    "train text --data book.txt --schedule sequence": ["schedule=sequence", "chunked and sliding"],
    "train text --data book.txt --depth full": ["depth=full", "schedule=chunked", "give a number"],
    "train text --data book.txt --depth -1": ["depth=-1", "at least 0"],
    "train text --data book.txt --segments 5": ["segments=5 has no effect", "leave it out"],
    "train text --data book.txt --length 5": ["length=5 has no effect", "leave it out"],
    "train text --data book.txt --task.source fixed": ["source=fixed has no effect", "leave it out"],
    "train text --data book.txt --task.options symbols=3": ["task.options", "no effect", "leave it out"],
    "train copy --data book.txt": ["data=book.txt has no effect", "leave it out"],
    "train copy --task.segment_length 9": ["segment_length=9 has no effect", "leave it out"],
    "train copy --task.reset document": ["reset=document has no effect", "leave it out"],
    "train copy --size enwik8-base": ["size=enwik8-base is for text", "'copy'", "use small or paper"],
    "train copy --train.evaluate_batch 3": ["evaluate_batch=3 has no effect", "leave it out"],
    "train copy --scale cpu": ["scale=cpu has no effect", "leave it out"],
    "train text --data book.txt --task.segment_length 0": ["segment_length=0", "above 0"],
    "train text --data book.txt --task.segment_length 500": [
        "segment_length=500",
        "111 tokens",
        "fewer lanes",
        "shorter segments",
    ],
    "train text --data book.txt --batch 1000": ["split", "batch=1000", "2000 tokens", "use fewer lanes"],
    "train text --data book.txt --task.reset 0": ["reset=0", "above 0"],
    "train text --data book.txt --task.reset always": ["reset='always'", "a whole number, never, document"],
    "train text --data book.txt --task.tokens syllables": ["tokens='syllables'", "words, bytes, characters"],
    "train text --data book.txt --curriculum.over length": ["curriculum.over=length", "leave it out"],
    "train text --data book.txt --model.cutoffs 9,5": ["cutoffs=(9, 5)", "rising"],
    "train text --data book.txt --model.cutoffs 5,500": ["cutoffs=(5, 500)", "vocabulary's"],
    "train text --data book.txt --model.cutoffs few": ["model.cutoffs='few'", "a whole number"],
    "train text --data book.txt --model.div_val 2": ["div_val=2 has no effect", "model.cutoffs", "leave it"],
    "train text --data book.txt --model.vocabulary 3": ["vocabulary=3", "too small"],
    "train text --data book.txt --train.memory_loss -1": ["memory_loss=-1.0", "at least 0"],
    "train text --data book.txt --train.memory_loss 0.01 --model baseline": ["predicts=True", "needs", "set"],
    "train text --data book.txt --train.memory_loss 0.01 --model memory_transformer": ["needs a write block"],
    "train text --data book.txt --model.memory.predicts on": ["predicts=True", "memory_loss=0.0", "both"],
    "train text --data book.txt --train.evaluate_cache 9": ["evaluate_cache=9", "no cache", "leave it out"],
    "train text --data book.txt --train.evaluate_samples 9": ["evaluate_samples=9 has no effect", "leave it"],
    "train text --data book.txt --train.accumulate 3": ["accumulate=3", "batch=16", "use a divisor"],
    "train text --data book.txt --target 0": ["target=0.0", "above 0"],
    "train text --data book.txt --scale cpu": ["scale=cpu has no effect", "size=small", "enwik8-base"],
    "train text --data book.txt --size paper": ["size=paper", "small, enwik8-base, wt103-base"],
    "train text --data book.txt --bptt.replay_from latest": ["replay_from=latest", "schedule=sliding"],
    "train text --data book.txt --model transformer_xl --memory 3": ["memory=3 has no effect", "leave it"],
}


@pytest.fixture(autouse=True)
def book() -> None:
    """A text of 2,000 bytes in the working folder: 1,800 to train on, 100 each to validate and test."""
    words = random.Random(0).choices(
        ["the", "of", "and", "to", "in", "a", "is", "that", "it", "was", "for", "on", "are", "as"], k=900
    )
    Path("book.txt").write_text(" ".join(words).replace("the ", "the\n")[:2000])


def test_a_text_is_prepared_trained_and_measured(capsys, tmp_path):
    code, out, err = rmt(capsys, TRAIN)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.fullmatch(
        r"rmt  step 2  loss \d\.\d{3}  perplexity \d+\.\d{3}  bits per character \d\.\d{4}", lines[0]
    )
    assert lines[1].startswith("rmt  step 4  loss ")
    assert lines[2] == "finished: runs/text-book.txt-rmt-modern-0"
    assert re.match(r"perplexity \d+\.\d{3}  bits per character \d\.\d{4} on 96 test tokens", lines[3])
    assert lines[4].startswith("4 steps, 48 samples, ")
    assert lines[4].endswith(" 384 tokens")
    assert (tmp_path / "data" / "book.txt-bytes" / "train.bin").stat().st_size == 2 * 1800
    result = json.loads((tmp_path / "runs" / "text-book.txt-rmt-modern-0" / "result.json").read_text())
    assert (result["task"], result["metric"], result["split"]) == ("text", "bits_per_character", "test")
    assert result["value"] == result["metrics"]["bits_per_character"]
    assert result["metrics"]["tokens"] == 4 * (100 // 4 - 1)


def test_words_are_judged_by_perplexity_and_nothing_is_said_of_characters(capsys, tmp_path):
    words = "--task.tokens words --task.segment_length 4 --batch 2"
    code, out, err = rmt(capsys, f"{TRAIN} {words} --out run")
    assert (code, err) == (0, "")
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
    assert resumed.out.startswith("rmt  resuming at step 2\n")
    again = rmt(capsys, f"{TRAIN} --out run")
    assert again.out.splitlines()[0] == "already finished: run"
    assert again.out.splitlines()[1:] == resumed.out.splitlines()[-2:]


def test_a_run_is_measured_as_it_was_and_with_another_length_split_batch_and_cache(capsys):
    assert rmt(capsys, f"{BOTH} --out run --quiet").code == 0
    model, task = load("run"), Text("book.txt")
    for options, expected in {
        "": (model, "test", 4, 8),
        "--split valid": (model, "valid", 4, 8),
        "--split train --batch 3": (model, "train", 3, 8),
        "--length 13": (model, "test", 4, 13),
        "--cache 20": (with_cache(model, 20), "test", 4, 8),
        "--cache 1 --length 50 --split valid --batch 1": (with_cache(model, 1), "valid", 1, 50),
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
    expected = perplexity(with_cache(load("run"), 20), Text("book.txt").lanes("test", 4), 8)
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
    """To the last one; pre-norm layers need a norm behind them, 2 · width, and memory tokens are more."""
    command = f"train text --data {described(size)} --size {size} --recipe {recipe}"
    final_norm = 2 * SIZES[size]["model.width"] if recipe == "modern" else 0
    assert parameters(printed(capsys, f"{command} --model baseline")) == PARAMETERS[size] + final_norm
    memory = 10 * SIZES[size]["model.width"]
    assert parameters(printed(capsys, command)) == PARAMETERS[size] + final_norm + memory


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
    assert (code, err) == (0, "")
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
    assert (code, err) == (0, "")
    Path("config.yaml").write_text(out)
    assert rmt(capsys, "train --config config.yaml --print_config") == (0, out, "")


@pytest.mark.parametrize("command", REFUSED)
def test_a_mistake_is_one_line_and_leaves_no_run_behind(capsys, tmp_path, command):
    assert_refused(capsys, command, REFUSED[command])
    assert not (tmp_path / "runs").exists()


def test_too_many_lanes_for_the_validation_split_are_refused_before_training(capsys, tmp_path):
    assert_refused(capsys, f"{TRAIN} --batch 60 --out run", ["'valid'", "batch=60", "120 tokens"])
    assert not (tmp_path / "run").exists()


def test_a_corpus_without_a_split_is_refused(capsys):
    Path("books").mkdir()
    for split in ("train", "test"):
        Path("books", f"{split}.txt").write_text("It was the best of times. " * 9)
    assert_refused(capsys, "train text --data books", ["'books'", "no valid split", "train, valid and test"])


def test_a_prepared_corpus_has_the_tokens_that_it_has(capsys):
    assert rmt(capsys, "data prepare book.txt --out prepared").code == 0
    said = ["task.tokens=words", "'prepared' is prepared in bytes"]
    assert_refused(capsys, "train text --data prepared --task.tokens words", said)


def test_a_changed_text_is_refused_before_and_after_it_is_prepared_again(capsys, tmp_path):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    (tmp_path / "run" / "result.json").unlink()
    Path("book.txt").write_text(Path("book.txt").read_text()[::-1])
    assert_refused(capsys, f"{TRAIN} --out run", ["'data/book.txt-bytes' has another corpus", "--force"])
    assert rmt(capsys, "data prepare book.txt --force").code == 0
    said = ["task.data='book.txt'", "is not the corpus this run was trained on", "--restart"]
    assert_refused(capsys, f"{TRAIN} --out run", said)
    assert rmt(capsys, f"{TRAIN} --out run --restart --quiet").code == 0


def test_a_run_with_other_lanes_or_segments_is_another_run(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    for option, said in {
        "--batch 5": "train.batch=4, not 5",
        "--task.segment_length 9": "task.segment_length=8, not 9",
        "--task.reset document": "task.reset=never, not document",
        "--depth 1": "bptt.depth=2, not 1",
    }.items():
        assert_refused(capsys, f"{TRAIN} --out run {option}", ["out='run'", said, "--restart"])


def test_options_of_an_evaluation_that_have_no_effect_are_refused(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    assert_refused(capsys, "evaluate run --cache 9", ["evaluate_cache=9", "no cache", "leave it out"])
    assert_refused(capsys, "evaluate run --segments 2", ["segments=2 has no effect", "leave it out"])
    assert_refused(capsys, "evaluate run --samples 2", ["samples=2 has no effect", "leave it out"])
    assert_refused(capsys, "evaluate run --length 0", ["length=0", "at least 1"])
    assert_refused(capsys, "evaluate run --batch 51", ["'test'", "batch=51", "102 tokens", "fewer lanes"])
    assert rmt(capsys, f"{SEQUENCES} --out copy --quiet").code == 0
    assert_refused(capsys, "evaluate copy --length 9", ["length=9 has no effect", "leave it out"])
    assert_refused(capsys, "evaluate copy --cache 9", ["cache=9 has no effect", "leave it out"])


def printed(capsys: pytest.CaptureFixture[str], command: str) -> RunConfig:
    """The configuration that a command prints."""
    code, out, err = rmt(capsys, f"{command} --print_config")
    assert (code, err) == (0, "")
    return from_dict(RunConfig, yaml.safe_load(out))


def described(size: str, vocabulary: int | None = None) -> str:
    """A corpus of which nothing is there but its description."""
    vocabulary = vocabulary or VOCABULARIES[size]
    folder = Path(f"corpus-{vocabulary}")
    folder.mkdir(exist_ok=True)
    kind = "words" if size == "wt103-base" else "bytes"
    splits = {"train": {}, "valid": {}, "test": {}}
    description = {"format": FORMAT, "tokens": kind, "vocabulary": vocabulary, "splits": splits}
    (folder / "corpus.json").write_text(json.dumps(description))
    return str(folder)


def parameters(config: RunConfig) -> int:
    """How many parameters the model has, without making room for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in SegmentModel(config.model).parameters())
