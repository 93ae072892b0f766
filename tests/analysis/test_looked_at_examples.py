"""Examples of a task and texts of one's own."""

import pytest
import torch

from rmt.analysis.examples import task_examples, text_example
from rmt.errors import ConfigError, DataError
from rmt.tasks import make_task
from rmt.tasks.tokenizer import SymbolTokenizer

COPY = make_task("copy", length=3)


def test_examples_are_numbered_as_in_their_split():
    batch = COPY.split("valid", 4)
    second, third, fourth = task_examples(COPY, "valid", 2, 3)
    assert (second.name, fourth.name) == ("valid example 2", "valid example 4")
    assert torch.equal(third.tokens, batch.tokens[2])
    assert torch.equal(third.targets, batch.targets[2])
    assert torch.equal(third.wanted, batch.loss_mask[2])


def test_examples_start_at_one():
    with pytest.raises(ConfigError, match="example=0 must be at least 1"):
        task_examples(COPY, "test", 0, 1)


@pytest.mark.parametrize("name", ["copy", "reverse", "retrieval"])
def test_a_text_is_read_as_the_task_writes_it(name):
    task = make_task(name)
    tokens = task.split("test", 1).tokens[0]
    assert torch.equal(text_example(task.tokenizer(), task.render(tokens.tolist())).tokens, tokens)


def test_a_text_may_have_any_length_and_asks_nothing():
    example = text_example(COPY.tokenizer(), " 3 1 4\n| 3")
    assert example.tokens.tolist() == [5, 3, 6, 1, 5]
    assert example.targets.tolist() == [3, 6, 1, 5, 5]
    assert not example.wanted.any()


def test_a_text_of_characters_needs_no_spaces():
    assert text_example(COPY.tokenizer(), "314|3").tokens.tolist() == [5, 3, 6, 1, 5]
    assert SymbolTokenizer(["a", "b", "ab"]).encode("ab") == [2]  # a word goes before its characters


def test_a_task_of_characters_knows_its_spaces():
    task = make_task("quadratic")
    known = task.tokenizer().shown()
    text = "x^2-3*x+2=0"
    assert [known[token] for token in text_example(task.tokenizer(), text).tokens.tolist()] == list(text)


@pytest.mark.parametrize("text", ["", "   "], ids=["nothing", "spaces"])
def test_a_text_without_tokens_is_refused(text):
    with pytest.raises(ConfigError, match="holds no token"):
        text_example(COPY.tokenizer(), text)


def test_an_unknown_token_is_named():
    with pytest.raises(DataError, match="token 'x' at byte 2 of the text is not in the model's vocabulary"):
        text_example(COPY.tokenizer(), "3 x 4")
