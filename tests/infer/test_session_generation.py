"""Generation rolls memory at segment borders, costs the same for every token, and equals recomputation."""

from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

import rmt
from rmt import Session
from rmt.errors import ConfigError, DataError
from rmt.infer.sampling import Sampling, generators_of, sample
from tests.laws.models import LENGTH, STEPPABLE, build, configuration, over, random_tokens, run

CARRYING = ("baseline", "rmt", "transformer_xl", "transformer_xl_rmt")
NEW = 2 * LENGTH + 1
WAYS = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 1.3},
    "top_k": {"temperature": 0.8, "top_k": 3},
    "top_p": {"top_p": 0.7},
}


def recomputed(model: rmt.SegmentModel, prompt: Tensor, seed: int, **way: float) -> list[int]:
    """Each token from an unroll of everything before it."""
    generators, tokens = generators_of(seed, 1), prompt
    for _ in range(NEW):
        logits = run(model, list(tokens.split(LENGTH, dim=1)))[-1].logits[:, -1]
        token = sample(logits, Sampling(**way), generators)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[0, prompt.shape[1] :].tolist()


@pytest.mark.covering
@over(CARRYING, STEPPABLE)
@pytest.mark.parametrize("way", WAYS)
def test_generation_is_the_naive_recomputation_token_by_token(config, way):
    model, prompt = build(config), random_tokens(1, LENGTH + 2)
    session = Session(model, segment_length=LENGTH)
    session.feed(prompt)
    found = [int(token) for token in session.generate(NEW, seed=5, **WAYS[way])]
    assert found == recomputed(model, prompt, 5, **WAYS[way])
    assert len(found) == NEW


def test_rows_of_a_batch_generate_what_they_generate_alone():
    model, prompts = build(configuration("transformer_xl_rmt")), [[1] * 6, [2], [3] * 3]
    together = Session(model, segment_length=LENGTH, batch=3)
    together.feed(prompts)
    found = torch.stack(list(together.generate(NEW, seed=7)), dim=1)
    for row, prompt in enumerate(prompts):
        alone = Session(model, segment_length=LENGTH)
        alone.feed(prompt)
        assert found[row].tolist() == [int(token) for token in alone.generate(NEW, seed=7 + row)]


def test_a_row_ends_with_a_stop_token_and_the_others_go_on():
    model = build(configuration("rmt"))
    free = [tokens.tolist() for tokens in started(model).generate(30, seed=1)]
    stop = free[4][0]
    first = [next(place for place, row in enumerate(free) if row[column] == stop) for column in (0, 1)]
    found = [tokens.tolist() for tokens in started(model).generate(30, seed=1, stop=stop)]
    assert len(found) == max(first) + 1
    for column, end in enumerate(first):
        assert [row[column] for row in found[: end + 1]] == [row[column] for row in free[: end + 1]]
        assert all(row[column] == -1 for row in found[end + 1 :])


def test_a_text_of_several_tokens_ends_generation():
    class Letters:
        def encode(self, text: str) -> list[int]:
            return [ord(letter) - ord("a") for letter in text]

    model = build(configuration("rmt"))
    free, found = (Session(model, Letters(), LENGTH) for _ in range(2))
    for one in (free, found):
        one.feed("abc")
    tokens = [int(token) for token in free.generate(20, seed=2)]
    stop = "".join(chr(ord("a") + token) for token in tokens[5:8])
    place = next(place for place in range(20) if tokens[place : place + 3] == tokens[5:8])
    assert [int(token) for token in found.generate(20, seed=2, stop=stop)] == tokens[: place + 3]


@pytest.mark.parametrize("kind", [np.int64, torch.tensor, lambda token: [np.int64(token)]])
def test_a_stop_token_is_an_integer_of_any_kind(kind):
    model = build(configuration("rmt"))
    token = next(started(model).generate(1, seed=1)).tolist()[0]
    ends, expected = (
        [tokens.tolist() for tokens in started(model).generate(9, seed=1, stop=stop)]
        for stop in (kind(token), token)
    )
    assert ends == expected


@pytest.mark.parametrize("stop", [1.0, [1.5]], ids=str)
def test_an_ending_that_is_neither_a_text_nor_an_integer_is_refused(stop):
    with pytest.raises(ConfigError, match=r"stop=.* is neither a token id nor a text; name one, or several"):
        started(build(configuration("rmt"))).generate(2, stop=stop)


def started(model: rmt.SegmentModel) -> Session:
    session = Session(model, segment_length=LENGTH, batch=2)
    session.feed([[1, 2], [3]])
    return session


def test_every_token_costs_the_same_however_much_was_read():
    model = build(configuration("transformer_xl_rmt"))
    rows: list[int] = []
    model.backbone.register_forward_pre_hook(lambda module, inputs: rows.append(inputs[0].shape[1]))
    costs = []
    for read in (LENGTH + 1, 50 * LENGTH + 1):
        session = Session(model, segment_length=LENGTH)
        session.feed(random_tokens(1, read))
        rows.clear()
        list(session.generate(NEW, seed=0))
        costs.append(list(rows))
    assert costs[0] == costs[1]
    assert sum(costs[0]) == NEW + 2 * 3 + 2 * 3  # each token once, two write blocks, two read blocks


def test_generated_tokens_are_read_and_not_scored():
    model = build(configuration("rmt"))
    session, told = (Session(model, segment_length=LENGTH) for _ in range(2))
    session.feed([1, 2, 3])
    before = session.score()
    tokens = [int(token) for token in session.generate(NEW, seed=3)]
    assert session.score() == before
    told.feed([1, 2, 3, *tokens])
    torch.testing.assert_close(session.logits(), told.logits(), rtol=1e-12, atol=1e-12)


def test_generation_can_be_left_and_taken_up_again():
    model = build(configuration("rmt"))
    session, whole = (Session(model, segment_length=LENGTH) for _ in range(2))
    for one in (session, whole):
        one.feed([1, 2, 3])
    first = [int(token) for token in islice(session.generate(temperature=0), 5)]
    rest = [int(token) for token in session.generate(4, temperature=0)]
    assert first + rest == [int(token) for token in whole.generate(9, temperature=0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature=-1.0 must be at least 0"),
        ({"top_k": 0}, "top_k=0 must be above 0"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0"),
        ({"temperature": 0.0, "top_k": 3}, "top_k=3 has no effect without a temperature above 0"),
        ({"seed": -1}, "seed=-1 must be at least 0"),
        ({"max_new_tokens": -1}, "max_new_tokens=-1 must be at least 0"),
        ({"stop": "ab"}, "stop='ab' needs a tokenizer"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_meant_is_refused_at_the_call(options, message):
    session = Session(build(configuration("rmt")), segment_length=LENGTH)
    session.feed([1])
    with pytest.raises(ConfigError, match=message):
        session.generate(**options)


def test_a_session_that_has_read_nothing_cannot_generate():
    session = Session(build(configuration("rmt")), segment_length=LENGTH)
    with pytest.raises(ConfigError, match="feed it a prompt first"):
        session.generate(3)


def test_logits_that_are_no_numbers_are_refused():
    model = build(configuration("rmt"))
    session = Session(model, segment_length=LENGTH)
    session.feed([1, 2])
    with torch.no_grad():
        model.embedding.bias[5] = float("nan")
    with pytest.raises(DataError, match="logits have NaN or inf"):
        next(session.generate(1))


@pytest.mark.parametrize("stop", [99, -1, [0, 99], [-1]], ids=str)
def test_an_ending_that_no_token_can_be_is_refused(stop):
    model = build(configuration("rmt"))
    session = Session(model, segment_length=LENGTH)
    session.feed([1])
    said = f"is not in the model's vocabulary; name ids of 0 to {model.config.vocabulary - 1}"
    with pytest.raises(ConfigError, match=said):
        session.generate(2, stop=stop)
