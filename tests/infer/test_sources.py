"""What a session can be fed with, and the line that answers everything else."""

import numpy as np
import pytest
import torch

import rmt
from rmt.errors import ConfigError, DataError, RMTError
from rmt.infer import sources
from rmt.infer.sources import text_pieces
from rmt.tasks.tokenizer import WordTokenizer


@pytest.fixture(scope="module")
def model() -> rmt.SegmentModel:
    return rmt.SegmentModel(rmt.presets.rmt(memory=2, vocabulary=8, layers=1, width=4, inner_width=4))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1.5, 2.5], "token 1.5 is not an id; give whole numbers"),
        ([1.0], "token 1.0 is not an id"),
        (torch.full((3,), 0.5), "tokens of type torch.float32 are not ids"),
        ([1, "a"], "token 'a' is not an id"),
        ([None], "token None is not an id"),
        ([10**30], "token .* is not an id"),
        ([["a"]], r"token \['a'\] is not an id"),
        ([[1, [2]]], "is not an id"),
        (3, "a session cannot be fed with int"),
        (None, "a session cannot be fed with NoneType"),
        (
            {"input_ids": [1, 2]},
            r"a session cannot be fed with dict; give its ids, such as source\['input_ids'\]",
        ),
        (torch.zeros(2, 3, dtype=torch.long), r"tokens of shape \(2, 3\) do not fit a session of batch=1"),
        ("text", "text needs a tokenizer"),
        ([99], "token 99 at place 3 is not in the model's vocabulary; ids are 0 to 7"),
    ],
    ids=repr,
)
def test_what_is_no_token_is_refused_in_one_line_and_leaves_the_session_as_it_was(model, source, message):
    session = rmt.Session(model, segment_length=4)
    session.feed([1, 2, 3])
    with pytest.raises(RMTError, match=message) as error:
        session.feed(source)
    assert "\n" not in str(error.value)
    assert session.seen.tolist() == [3]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([1, 2.7], "token 2.7 is not an id"),
        ([1, "3"], "token '3' is not an id"),
        ([1, None], "token None is not an id"),
        ([torch.tensor(1.9)], "are not ids"),
        ([1, torch.tensor(1.9)], "are not ids"),
    ],
)
def test_what_an_iterator_gives_is_judged_as_a_list_is(model, tokens, message):
    session = rmt.Session(model, segment_length=2)
    with pytest.raises(ConfigError, match=message):
        session.feed(iter(tokens))
    assert session.seen.tolist() == [0]


@pytest.mark.parametrize(
    "other", ["runs/copy", torch.nn.Linear(2, 2), None], ids=["path", "layer", "nothing"]
)
def test_a_session_needs_a_model_that_reads_segments(other):
    with pytest.raises(
        ConfigError, match=r"cannot be streamed with; give an rmt.SegmentModel, rmt.load\(RUN\)"
    ):
        rmt.Session(other, segment_length=4)


@pytest.mark.parametrize("field", ["segment_length", "batch"])
@pytest.mark.parametrize("value", ["4", 4.5, True, 0])
def test_sizes_of_a_session_are_whole_numbers(model, field, value):
    with pytest.raises(ConfigError, match=rf"{field}=.* (is not a whole number|must be above 0)"):
        rmt.Session(model, **{"segment_length": 4, field: value})


def test_a_session_says_in_a_line_how_far_it_is(model):
    session = rmt.Session(model, segment_length=4)
    session.feed([1] * 1234)
    state = "State(batch 1, memory 2 × 4, 32 bytes)"
    assert repr(session) == f"Session(SegmentModel, segments of 4, 1,234 tokens read, {state})"
    many = rmt.Session(model, segment_length=4, batch=3)
    assert repr(many).startswith("Session(SegmentModel, segments of 4, batch 3, 0 tokens read, State(batch 3")


@pytest.mark.parametrize(
    "ids", [np.arange(6)[::-1], np.arange(6).astype(">i8"), np.arange(6, dtype=np.uint8), np.arange(12)[::2]]
)
def test_an_array_is_read_however_it_lies_in_memory(model, ids):
    mine, theirs = (rmt.Session(model, segment_length=4) for _ in range(2))
    mine.feed(ids % 8)
    theirs.feed((ids % 8).tolist())
    assert torch.equal(mine.state.memory, theirs.state.memory)


@pytest.mark.parametrize("ids", [np.array(["a"]), np.array([1.0]), np.array([True]), np.array([None])])
def test_an_array_of_something_else_is_refused(model, ids):
    with pytest.raises(ConfigError, match=r"tokens of type .* are not ids; give whole numbers"):
        rmt.Session(model, segment_length=4).feed(ids)


def test_a_fork_has_a_note_of_its_own(model):
    session = rmt.Session(model, segment_length=4)
    session.fork().note["page"] = 1
    assert session.note == {}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_text_in_blocks_of_any_size_is_encoded_as_the_whole(size):
    words = WordTokenizer(["<eos>", "<unk>", "a", "b" * 300_000])
    text = f"a {'b' * 300_000} a a\n" * (2 if size > 1 else 1)
    blocks = [text[start : start + size].encode() for start in range(0, len(text), size)]
    ids = [int(id) for piece in text_pieces(blocks, words) for id in piece.ids]
    assert ids == words.encode(text)


def test_a_long_word_is_looked_through_in_proportion_to_its_length():
    words, looked_through = WordTokenizer(["<unk>"]), []

    class Counting:
        tokenize = staticmethod(words.tokenize)

        def complete_prefix(self, text):
            looked_through.append(len(text))
            return words.complete_prefix(text)

    assert len(list(text_pieces([b"x" * 1024] * 1024, Counting()))) == 1
    assert sum(looked_through) < 10 * 2**20


def test_a_word_that_no_memory_should_hold_is_one_line(monkeypatch):
    monkeypatch.setattr(sources, "MAX_UNBROKEN", 100)
    with pytest.raises(DataError, match=r"the text has no white space .* in 104 bytes from byte 4 on"):
        list(text_pieces([b"yes ", *[b"x" * 8] * 20], WordTokenizer(["<unk>"])))
