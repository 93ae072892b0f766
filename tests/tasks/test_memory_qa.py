"""memory-qa: facts in their order among a novel's words, the question at the end, splits kept apart."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from rmt.errors import ConfigError, DataError
from rmt.tasks import make_task
from rmt.tasks.memory_qa import MemoryQA, needed
from tests.tasks.stories import write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("memory-qa"))


def task(data: Path, **options: object) -> MemoryQA:
    return make_task("memory-qa", data=str(data), **{"length": 64, "buckets": 30, **options})


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_example_is_a_novel_with_the_facts_in_their_order_and_the_question_last(data, split):
    made = task(data)
    for number in range(20):
        example = made.example(split, number)
        row, story = example.row(), example.story
        assert row[:-1].tolist() == np.concatenate(list(example.pieces())).tolist()
        assert len(row) == made.length + 1
        assert row[-1] == story.answer
        assert row[-1 - len(story.question) : -1].tolist() == story.question.tolist()
        rest, place = row[: -1 - len(story.question)].tolist(), 0
        for fact, wanted in zip(story.facts, example.places.tolist(), strict=True):
            ids = fact.tolist()
            place = next(at for at in range(place, len(rest)) if rest[at : at + len(ids)] == ids)
            assert place == wanted
            del rest[place : place + len(ids)]
        assert rest == example.novel[(example.start + np.arange(len(rest))) % len(example.novel)].tolist()


def test_the_answer_is_the_last_place_of_who_is_asked_for(data):
    made = task(data)
    words = made.library.words
    for story in made.library.stories["test"]:
        asked = story.question[2]
        last = [fact for fact in story.facts if fact[0] == asked][-1]
        assert words.word(story.answer) == words.word(int(last[4]))


def test_only_the_answer_is_under_the_loss(data):
    batch = task(data).split("test", 3)
    assert batch.tokens.shape == (3, 64)
    assert batch.loss_mask.nonzero().tolist() == [[row, 63] for row in range(3)]
    assert (batch.answer == batch.loss_mask).all()


def test_the_held_out_novel_is_in_no_training_or_validation_example(data):
    made = task(data, buckets=5000)
    own = set(made.tokenizer().encode("Brooke beauty Miss had that"))
    shown = {split: set(made.split(split, 50).tokens.flatten().tolist()) for split in made.sizes}
    shown["fresh"] = set(made.fresh(50, 0, 0).tokens.flatten().tolist())
    assert own <= shown.pop("test")
    assert not own & set.union(*shown.values())


def test_a_tenth_of_the_training_questions_and_of_each_novel_validates(data):
    made = task(data)
    stories, novels = made.library.stories, made.library.novels
    assert [len(stories[split]) for split in ("train", "valid", "test")] == [36, 4, 40]
    whole = made.tokenizer().encode((data / "books" / "Whale_1.txt").read_text())
    assert [*novels["train"][0], *novels["valid"][0]] == whole
    assert len(novels["train"][0]) == len(whole) * 9 // 10


def test_a_stream_of_training_examples_is_the_same_whenever_it_is_asked_for(data):
    made = task(data)
    first, again, next_one = made.fresh(4, 3, 0), made.fresh(4, 3, 0), made.fresh(4, 4, 0)
    assert (first.tokens == again.tokens).all()
    assert (first.tokens != next_one.tokens).any()


def test_renaming_keeps_the_sense_of_a_story(data):
    made = task(data, rename=True)
    words, seen = made.library.words, set()
    names, places = (set(group.tolist()) for group in made.library.swaps)
    assert {words.word(id) for id in names} == {"mary", "john", "sandra", "daniel"}
    batch = made.fresh(60, 0, 0)
    for row, answer in zip(batch.tokens.tolist(), batch.targets[:, -1].tolist(), strict=True):
        facts = {
            row[at]: row[at + 4] for at in range(len(row) - 5) if row[at] in names and row[at + 4] in places
        }
        assert facts[row[-2]] == answer
        seen.add(answer)
    assert seen == places


def test_training_asks_for_old_facts_as_often_as_for_the_newest(data):
    stories = task(data).library.stories["train"]
    for story in stories:
        asked = [fact[0] for fact in reversed(story.facts)].index(story.question[2])
        assert story.since == asked
    shares = {}
    for balance in (True, False):
        made = task(data, balance=balance, rename=False)
        batch, ages = made.fresh(2000, 0, 0), []
        names = set(made.library.swaps[0].tolist())
        for row in batch.tokens.tolist():
            actors = [id for id in row[:-4] if id in names]
            ages.append(actors[::-1].index(row[-2]))
        counts = np.bincount(ages, minlength=4)
        shares[balance] = counts / counts.sum()
    groups = np.bincount([story.since for story in stories])
    assert shares[True] == pytest.approx(np.full(len(groups), 1 / len(groups)), abs=0.05)
    assert shares[False] == pytest.approx(groups / groups.sum(), abs=0.05)
    assert groups.max() > 2 * groups.min()


def test_a_short_length_has_the_training_stories_that_fit(data):
    longest = task(data).longest
    for length in (16, longest - 1, longest):
        made = task(data, length=length)
        batch = made.fresh(300, 0, 0)
        assert batch.tokens.shape == (300, length)
        names = made.library.swaps[0]
        facts = set((np.isin(batch.tokens.numpy(), names).sum(1) - 1).tolist())
        fitting = [story for story in made.library.stories["train"] if needed(story) <= length]
        assert facts == {len(story.facts) for story in fitting}


@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_length_that_some_story_does_not_fit_cannot_be_evaluated(data, split):
    longest = task(data).longest
    assert len(task(data, length=longest).split(split, 5).tokens) == 5
    with pytest.raises(ConfigError, match=f"too short for split '{split}': the longest story of qa1 has"):
        task(data, length=longest - 1).split(split, 1)


def test_the_same_question_can_be_asked_from_further_away(data):
    near, far = task(data).example("test", 5), task(data, length=500).example("test", 5)
    assert near.story is far.story
    assert far.noise == near.noise + 500 - 64


def test_a_million_tokens_are_read_in_the_memory_of_a_few_thousand(data):
    example = task(data, length=1_000_000).example("test", 0)
    tracemalloc.start()
    count = sum(len(piece) for piece in example.pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1_000_000
    assert peak < 1_000_000


def test_an_example_that_no_memory_holds_is_not_begun(data):
    with pytest.raises(MemoryError):
        task(data, length=1 << 40).split("test", 1)


def test_text_is_read_as_the_task_reads_it(data):
    made = task(data)
    ids = made.tokenizer().encode("Mary went to the GARDEN. Where is Mary?")
    assert made.render(ids) == "mary went to the garden . where is mary ?"
    assert made.tokenizer().decode(ids).split() == made.render(ids).split()
    assert made.tokenizer().complete_prefix(b"Mary went to th") == len("Mary went to ")
    assert all(0 <= id < made.vocabulary for id in made.tokenizer().encode("Ünknown, words; 1234"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qa": 6}, "qa=6 of task 'memory-qa' must be 1 to 5"),
        ({"qa": 2}, "has no babi/qa2_"),
        ({"length": 15}, "length=15 .* too short: the shortest story of qa1 has 16 tokens"),
        ({"length": 1 << 62}, "length=4611686018427387904 .* must be at most 1099511627776"),
        ({"buckets": 0}, "buckets=0"),
        ({"buckets": 60_001}, "buckets=60001 .* must be 1 to 60,000"),
        ({"held_out": "Ulysses"}, r"has no books/Ulysses….txt to test with"),
        ({"held_out": ".txt"}, "has no books/another.txt to train with"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused(data, options, message):
    with pytest.raises((ConfigError, DataError), match=message):
        task(data, **options)


def test_a_folder_without_data_is_named(tmp_path):
    with pytest.raises(DataError, match="has no babi/qa1_"):
        task(tmp_path)
    with pytest.raises(ConfigError, match="task 'memory-qa' needs option 'data'"):
        make_task("memory-qa")


def test_a_file_that_is_no_story_is_named(data, tmp_path):
    other = write_data(tmp_path)
    (other / "babi" / "qa1_single-supporting-fact_test.txt").write_text("Mary went\n")
    with pytest.raises(DataError, match="line 1 is not 'NUMBER SENTENCE'"):
        task(other)


def test_a_novel_of_one_word_cannot_be_divided_and_is_named(tmp_path):
    other = write_data(tmp_path)
    (other / "books" / "Whale_1.txt").write_text("Whale\n")
    with pytest.raises(DataError, match=r"Whale_1.txt' has one word, .* to train and to validate with"):
        task(other)


def test_the_length_of_a_story_is_that_of_its_facts_and_question(data):
    story = task(data).library.stories["train"][0]
    assert needed(story) == 2 * 6 + 4
