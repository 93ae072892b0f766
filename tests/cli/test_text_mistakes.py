"""A mistake about text: exit code 2 and one line naming field, value and remedy."""

from pathlib import Path

import pytest

from tests.cli.book import TRAIN, write_book
from tests.cli.command import TRAIN as SEQUENCES
from tests.cli.command import rmt
from tests.cli.test_bad_input import assert_refused

# what the line has to say
REFUSED = {
    "train text": ["data is missing", "--data"],
    "train text --data bok": [
        "data='bok' does not exist",
        "name a text, a folder of them, or one of: wikitext-2, ",
    ],
    "train text --data b.txt": ["'b.txt' does not exist", "name a text file"],  # not: did you mean text8?
    "train text --data bok.txt": ["'bok.txt' does not exist", "name a text file"],
    "train text --data nowhere/book.txt": ["'nowhere/book.txt' does not exist", "name a text file"],
    "train text --data wikitext-2": ["wiki.train.tokens", "run rmt data get wikitext-2"],
    "train text --data book.txt --schedule sequence": ["schedule=sequence", "chunked and sliding"],
    "train text --data book.txt --depth full": ["depth=full", "schedule=chunked", "give a number"],
    "train text --data book.txt --depth -1": ["depth=-1", "at least 0"],
    "train text --data book.txt --segments 5": ["segments=5 has no effect", "leave it out"],
    "train text --data book.txt --length 5": ["length=5 has no effect", "leave it out"],
    "train text --data book.txt --task.source fixed": ["source=fixed has no effect", "leave it out"],
    "train text --data book.txt --task.options symbols=3": [
        "'text' has no option 'symbols'",
        "options: data",
    ],
    "train text --data book.txt --task.options seed=3": ["seed=3 has no effect", "leave it out"],
    "train text --data book.txt --task.options data=other": ["task.options has data=other", "leave one out"],
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
    "train text --data book.txt --model.cutoffs few": ["model.cutoffs='few'", "a list of whole numbers"],
    "train text --data book.txt --model.div_val 2": ["div_val=2 has no effect", "model.cutoffs", "leave it"],
    "train text --data book.txt --model.vocabulary 3": ["vocabulary=3", "too small"],
    "train text --data book.txt --train.memory_loss -1": ["memory_loss=-1.0", "at least 0"],
    "train text --data book.txt --train.memory_loss 0.01 --model baseline": [
        "memory_loss",
        "writes no memory",
    ],
    "train text --data book.txt --train.memory_loss 0.01 --model memory_transformer": [
        "memory_loss",
        "writes no memory",
    ],
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
def book(capsys: pytest.CaptureFixture[str]) -> None:
    """A text that is prepared, so that nothing is said but the mistake."""
    write_book()
    assert rmt(capsys, "data prepare book.txt").code == 0


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
    assert rmt(capsys, "data prepare books").code == 0
    assert_refused(capsys, "train text --data books", ["'books'", "no valid split", "train, valid and test"])


def test_a_prepared_corpus_has_the_tokens_that_it_has(capsys):
    assert rmt(capsys, "data prepare book.txt --out prepared").code == 0
    said = ["task.tokens=words", "'prepared' is prepared in bytes"]
    assert_refused(capsys, "train text --data prepared --task.tokens words", said)


def test_words_that_are_not_known_are_an_error_that_names_the_option_of_training(capsys):
    Path("rare.txt").write_text("it was " * 300 + "\n" + "it was\n" * 60 + "unheard of\n" * 20)
    said = ["word 'unheard' is not in the vocabulary", "--task.tokens characters or bytes"]
    assert_refused(capsys, "train text --data rare.txt --task.tokens words", said)


def test_a_changed_text_is_refused_before_and_after_it_is_prepared_again(capsys, tmp_path):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    (tmp_path / "run" / "result.json").unlink()
    Path("book.txt").write_text(Path("book.txt").read_text()[::-1])
    assert_refused(capsys, f"{TRAIN} --out run", ["'data/book.txt-bytes' has another corpus", "--force"])
    elsewhere = "data prepare book.txt --out elsewhere"  # the other way that the message names
    assert rmt(capsys, elsewhere).code == 0
    assert (
        rmt(capsys, f"{TRAIN} --data elsewhere --out other --quiet".replace("--data book.txt ", "")).code == 0
    )
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
    assert_refused(capsys, "evaluate run --cache 9", ["rmt: cache=9", "no cache", "leave it out"])
    assert_refused(capsys, "evaluate run --segments 2", ["segments=2 has no effect", "leave it out"])
    assert_refused(capsys, "evaluate run --samples 2", ["samples=2 has no effect", "leave it out"])
    assert_refused(capsys, "evaluate run --segment_length 0", ["segment_length=0", "at least 1"])
    assert_refused(capsys, "evaluate run --batch 51", ["'test'", "batch=51", "102 tokens", "fewer lanes"])
    assert rmt(capsys, f"{SEQUENCES} --out copy --quiet").code == 0
    assert_refused(
        capsys, "evaluate copy --segment_length 9", ["segment_length=9 has no effect", "leave it out"]
    )
    assert_refused(capsys, "evaluate copy --cache 9", ["cache=9 has no effect", "leave it out"])
