"""Text is a task: the same questions, its own answers."""

from pathlib import Path

import numpy as np
import pytest

from rmt.errors import ConfigError, DataError
from rmt.tasks import Task, make_task
from rmt.text.task import Text, find_corpus
from rmt.train.config import TaskConfig, build_task
from tests.cli.book import write_book


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_book()


def test_text_is_made_as_any_task_is():
    task = make_task("text", data="book.txt", segment_length=8)
    assert isinstance(task, Task)
    assert type(task) is type(build_task(TaskConfig(name="text", data="book.txt", segment_length=8)))
    assert (task.name, task.layout, task.sign, task.metric) == ("text", "lanes", -1, "bits_per_character")
    assert task.vocabulary == 256
    assert task.tokens_per_segment(3) == task.tokens_per_segment(99) == 8


def test_pieces_of_a_split_are_its_text_in_order():
    task, text = Text(data="book.txt", segment_length=8), Path("book.txt").read_bytes()
    batch = task.split("train", 3)
    assert bytes(batch.tokens.flatten().tolist()) == text[:72]
    assert bytes(batch.targets.flatten().tolist()) == text[1:73]
    assert batch.answer.all()
    with pytest.raises(ConfigError, match="count=5 of split 'test' of task 'text' must be 1 to 4"):
        task.split("test", 5)


def test_drawn_pieces_lie_in_the_text_to_train_on():
    task, text = Text(data="book.txt", segment_length=8), Path("book.txt").read_bytes()[:1800]
    examples = task.draw(np.random.default_rng(0), 20)
    assert all(bytes(row) in text for row in examples.tokens.astype(np.uint8))
    assert (examples.targets[:, :-1] == examples.tokens[:, 1:]).all()


def test_where_a_text_is_prepared_is_said_once(caplog):
    caplog.set_level("INFO", logger="rmt")
    for _ in range(2):
        find_corpus("book.txt", "characters")
    assert caplog.messages == ["book.txt is prepared in data/book.txt-characters"]


def test_only_bytes_that_occur_have_an_id_where_that_is_asked_for():
    text = Path("book.txt").read_bytes()
    every, occurring = Text(data="book.txt"), Text(data="book.txt", occurring=True)
    assert (every.vocabulary, occurring.vocabulary) == (256, len(set(text)))
    assert every.fingerprint != occurring.fingerprint
    assert occurring.corpus.vocabulary().symbols == sorted(set(text))


def test_a_corpus_of_the_release_before_is_read_with_its_own_vocabulary():
    from rmt.text.corpora import find_source
    from rmt.text.prepare import prepare_corpus

    prepare_corpus(find_source("book.txt", occurring=True), Path("data/book.txt-bytes"))
    for task in (Text(data="book.txt"), Text(data="book.txt", occurring=True)):
        assert task.vocabulary == len(set(Path("book.txt").read_bytes()))
        assert task.corpus.folder == Path("data/book.txt-bytes")


def test_a_text_describes_itself():
    said = Text(data="book.txt").describe()
    assert "book.txt, prepared in 'data/book.txt-bytes': bytes, 256 kinds of token" in said
    assert "1,800 train, 100 valid, 100 test" in said


def test_a_damaged_folder_is_mended_by_a_command_that_there_is():
    folder = find_corpus("book.txt").folder
    (folder / "test.bin").write_bytes(b"")
    for data in (str(folder), "book.txt"):
        with pytest.raises(DataError, match=r"; prepare the corpus again with rmt data prepare … --force$"):
            find_corpus(data)
