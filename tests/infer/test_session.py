"""A session fed in pieces of any size is one unroll; rows, forks and copies on disk are sessions, too."""

import io
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

import rmt
from rmt import Session, State
from rmt.errors import ConfigError, DataError
from tests.laws.models import (
    LENGTH,
    STEPPABLE,
    VOCABULARY,
    assert_same,
    assert_same_state,
    build,
    carried,
    configuration,
    over,
    random_tokens,
    row_of,
    run,
)

TOTAL = 3 * LENGTH + 3
SIZES = [1, 7, LENGTH - 1, LENGTH, 3 * LENGTH + 2]
CARRYING = (
    "baseline",
    "rmt",
    "transformer_xl",
    "transformer_xl_rmt",
    "cache_of_all_positions",
    "memory_in_layers",
    "associative_memory",
)


class Letters:
    """A tokenizer: a letter is a token."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(ord("a") + id) for id in ids)

    def complete_prefix(self, text: bytes) -> int:
        return len(text)


def naive(model: rmt.SegmentModel, tokens: Tensor) -> tuple[Tensor, State]:
    """Logits and state of whole segments, one after the other."""
    outputs = run(model, list(tokens.split(LENGTH, dim=1)))
    return torch.cat([output.logits for output in outputs], dim=1), outputs[-1].state


def fed(model: rmt.SegmentModel, tokens: Tensor, size: int, batch: int = 1) -> tuple[Tensor, Session]:
    """Hidden states of tokens fed in pieces, and the session."""
    session = Session(model, segment_length=LENGTH, batch=batch)
    return torch.cat([session.feed(piece, "hidden") for piece in tokens.split(size, dim=1)], dim=1), session


@pytest.mark.covering
@over(positions=STEPPABLE)
@pytest.mark.parametrize("size", SIZES)
def test_pieces_of_any_size_are_one_unroll(config, size):
    model, tokens = build(config), random_tokens(2, TOTAL)
    logits, state = naive(model, tokens)
    hidden, session = fed(model, tokens, size, batch=2)
    assert_same(model.embedding.logits(hidden), logits)
    assert_same_state(session.close(), state)


@over(CARRYING, STEPPABLE)
def test_in_float32_they_are_one_unroll_to_1e_6(config):
    model, tokens = build(config).float(), random_tokens(1, TOTAL)
    logits, state = naive(model, tokens)
    for size in SIZES:
        hidden, session = fed(model, tokens, size)
        actual = (model.embedding.logits(hidden), *carried(session.close()))
        for mine, theirs in zip(actual, (logits, *carried(state)), strict=True):
            assert_same(mine, theirs, tolerance=1e-6 * max([1.0, *theirs.detach().abs().flatten().tolist()]))


@pytest.mark.parametrize("positions", STEPPABLE)
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(feeds=some.lists(some.lists(some.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_rows_at_places_of_their_own_are_sessions_of_their_own(positions, feeds):
    model = build(configuration("transformer_xl_rmt", positions=positions))
    together = Session(model, segment_length=LENGTH, batch=3)
    alone = [Session(model, segment_length=LENGTH) for _ in range(3)]
    for number, sizes in enumerate(feeds):
        rows = [random_tokens(size, seed=10 * number + row).tolist() for row, size in enumerate(sizes)]
        given = together.feed(rows, "log_probs")
        for row, (tokens, session) in enumerate(zip(rows, alone, strict=True)):
            torch.testing.assert_close(
                given[row, : len(tokens)],
                session.feed(tokens, "log_probs")[0],
                rtol=1e-12,
                atol=1e-12,
                equal_nan=True,
            )
            assert given[row, len(tokens) :].isnan().all()
    assert together.seen.tolist() == [int(session.seen) for session in alone]
    state = together.close()
    for row, session in enumerate(alone):
        assert_same_state(row_of(state, row), session.close())


@over(CARRYING, STEPPABLE)
def test_log_probabilities_are_those_of_the_unroll_and_the_first_token_has_none(config):
    model, tokens = build(config), random_tokens(1, TOTAL)
    expected = naive(model, tokens)[0].detach().log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None])[..., 0]
    for size in SIZES:
        session = Session(model, segment_length=LENGTH)
        found = torch.cat([session.feed(piece, "log_probs") for piece in tokens.split(size, dim=1)], dim=1)
        assert found[0, 0].isnan()
        assert_same(found[:, 1:], expected)
        score = session.score()
        assert score.tokens == TOTAL - 1
        assert score.loss == pytest.approx(-float(expected.mean()), rel=1e-12)
        assert score.perplexity == pytest.approx(float((-expected.mean()).exp()), rel=1e-12)


def test_an_adaptive_softmax_gives_the_same_log_probabilities():
    config = configuration("rmt")
    model = build(type(config)(**{**vars(config), "cutoffs": (3, 7)}))
    tokens = random_tokens(1, TOTAL)
    logits, _ = naive(model, tokens)
    session = Session(model, segment_length=LENGTH)
    found = session.feed(tokens, "log_probs")
    assert_same(found[:, 1:], logits[:, :-1].gather(2, tokens[:, 1:, None])[..., 0])


@pytest.mark.covering
@over(CARRYING, STEPPABLE)
@pytest.mark.parametrize("place", [LENGTH, 2 * LENGTH + 1, 3 * LENGTH - 1])
def test_saved_loaded_and_continued_is_uninterrupted(config, place, tmp_path):
    model, tokens = build(config), random_tokens(2, TOTAL)
    through, stopped = (Session(model, segment_length=LENGTH, batch=2) for _ in range(2))
    stopped.feed(tokens[:, :place])
    stopped.save(tmp_path / "state", {"place": place})
    continued = Session.load(tmp_path / "state", model)
    expected = through.feed(tokens, "log_probs")[:, place:]
    assert_same(continued.feed(tokens[:, place:], "log_probs"), expected)
    assert_same_state(continued.close(), through.close())
    assert continued.score() == pytest.approx(through.score(), rel=1e-12)
    assert continued.note == {"place": place}


def test_rows_at_different_places_are_saved_and_continued(tmp_path):
    model = build(configuration("transformer_xl_rmt"))
    session = Session(model, segment_length=LENGTH, batch=3)
    session.feed([[1] * 9, [2], [3] * 6])
    session.save(tmp_path / "state")
    loaded, more = Session.load(tmp_path / "state", model), [[4, 5], [6] * 5, [7]]
    torch.testing.assert_close(
        loaded.feed(more, "log_probs"), session.feed(more, "log_probs"), equal_nan=True
    )
    assert_same_state(loaded.close(), session.close())


@over(CARRYING, STEPPABLE)
def test_a_fork_diverges_without_touching_its_parent(config):
    model, tokens = build(config), random_tokens(1, TOTAL)
    parent, alone = (Session(model, segment_length=LENGTH) for _ in range(2))
    for session in (parent, alone):
        session.feed(tokens[:, : LENGTH + 2])
    child, ended = parent.fork(), parent.fork()
    ended.close()
    other = child.feed((tokens[:, LENGTH + 2 :] + 1) % VOCABULARY, "log_probs")
    mine = parent.feed(tokens[:, LENGTH + 2 :], "log_probs")
    assert_same(mine, alone.feed(tokens[:, LENGTH + 2 :], "log_probs"))
    assert_same_state(parent.close(), alone.close())
    assert not torch.allclose(mine, other)
    assert parent.score() == alone.score()


@pytest.mark.parametrize(
    "source",
    [
        "abcdefabcdef",
        [0, 1, 2, 3, 4, 5] * 2,
        torch.arange(12) % 6,
        (torch.arange(12) % 6).numpy(),
        iter([0, 1, 2, 3, 4, 5] * 2),
        iter(["abc", "d", "efabcdef"]),
        (piece for piece in (torch.arange(12) % 6).split(5)),
        io.BytesIO(b"abcdefabcdef"),
        io.StringIO("abcdefabcdef"),
        ["abcdefabcdef"],
    ],
    ids=lambda source: type(source).__name__,
)
def test_every_kind_of_source_is_read(source):
    model = build(configuration("rmt"))
    session, expected = (Session(model, Letters(), LENGTH) for _ in range(2))
    expected.feed(torch.arange(12)[None] % 6)
    session.feed(source)
    assert session.score() == pytest.approx(expected.score())
    assert_same_state(session.close(), expected.close())


def test_a_file_is_read_by_its_path(tmp_path, monkeypatch):
    monkeypatch.setattr("rmt.infer.sources.BLOCK", 5)
    (tmp_path / "text").write_text("abcdefabcdef")
    session = Session(build(configuration("rmt")), Letters(), LENGTH)
    session.feed(tmp_path / "text")
    assert int(session.seen) == 12


def test_whole_segments_are_read_at_once_and_the_write_block_runs_once_in_each(monkeypatch):
    model = build(configuration("rmt"))
    calls = count_calls(model, monkeypatch)
    session = Session(model, segment_length=LENGTH)
    calls.clear()
    session.feed(random_tokens(1, 3 * LENGTH))
    assert calls == [3 + LENGTH + 3] * 3
    calls.clear()
    for token in random_tokens(2 * LENGTH).tolist():
        session.feed([token])
    assert calls == [3, *[1] * LENGTH, 3] * 2  # read block, tokens, write block


def count_calls(model: rmt.SegmentModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the number of rows of every call of the backbone."""
    calls: list[int] = []
    model.backbone.register_forward_pre_hook(lambda module, inputs: calls.append(inputs[0].shape[1]))
    return calls


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt"])
def test_what_a_session_holds_does_not_grow(kind):
    model = build(configuration(kind))
    session = Session(model, segment_length=LENGTH, batch=2)
    sizes = []
    for number in range(40):
        session.feed([[1, 2, 3, 4, 5], [6] * (number % 3)])
        sizes.append(session.nbytes)
    assert max(sizes[20:]) <= max(sizes[:20])
    assert session.state.nbytes == Session(model, segment_length=LENGTH, batch=2).state.nbytes


def test_a_saved_session_is_small_and_does_not_grow(tmp_path):
    model = build(configuration("rmt"))
    session = Session(model, segment_length=LENGTH)
    sizes = []
    for _ in range(3):
        session.feed(random_tokens(1, 5 * LENGTH + 1))
        session.save(tmp_path / "state")
        sizes.append((tmp_path / "state").stat().st_size)
    assert max(sizes) < 2000
    assert all(abs(after - before) < 64 for before, after in pairwise(sizes))


def test_dropout_is_off_in_a_session_and_the_model_is_left_as_it_was():
    model, tokens = build(configuration("rmt", dropout=0.5)), random_tokens(1, TOTAL)
    expected = Session(model, segment_length=LENGTH).feed(tokens, "log_probs")
    model.train()
    found = Session(model, segment_length=LENGTH).feed(tokens, "log_probs")
    assert model.training
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([1, VOCABULARY], r"token 12 at place 5 .*ids are 0 to 11"),
        ([-1], r"token -1 at place 4 "),
        ([0.5], "token 0.5 is not an id"),
        (torch.ones(1, 3), "torch.float32 are not ids"),
        (torch.ones(2, 3, dtype=torch.long), r"\(2, 3\) do not fit a session of batch=1"),
        ([[1], [2]], r"2 row\(s\).*batch=1"),
        ("text", "text needs a tokenizer"),
        (7.5, "cannot be fed with float"),
    ],
    ids=["above", "below", "half", "floats", "two rows", "two lists", "text", "a number"],
)
def test_what_cannot_be_read_is_refused_and_the_session_stays_as_it_is(source, message):
    model = build(configuration("rmt"))
    session, untouched = (Session(model, segment_length=LENGTH) for _ in range(2))
    for one in (session, untouched):
        one.feed([1, 2, 3, 4])
    with pytest.raises((ConfigError, DataError), match=message):
        session.feed(source)
    assert_same(session.feed([5], "log_probs"), untouched.feed([5], "log_probs"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("tokens", [[3], [1, 3, 1, 1, 1], [1] * LENGTH])
def test_a_damaged_embedding_is_noticed_at_once(value, tokens):
    model = build(configuration("rmt"))
    with torch.no_grad():
        model.embedding.weight[3] = value
    session = Session(model, segment_length=LENGTH)
    with pytest.raises(DataError, match=r"have NaN or inf.*embedding.*undamaged checkpoint"):
        session.feed(tokens)


@pytest.mark.parametrize("size", [1, LENGTH, 2 * LENGTH + 1])
@pytest.mark.parametrize("damage", ["embedding.weight", "embedding.bias", "backbone.final_norm.weight"])
def test_after_an_error_the_session_stands_before_the_piece_in_which_it_happened(size, damage):
    model, tokens = build(configuration("transformer_xl_rmt")), random_tokens(1, size)
    session, untouched = (Session(model, segment_length=LENGTH) for _ in range(2))
    for one in (session, untouched):
        one.feed([1, 2, 3])
    parameter = model.get_parameter(damage)
    kept = parameter.detach().clone()
    with torch.no_grad():
        parameter[int(tokens[0, 0]) % len(parameter)] = float("nan")
    with pytest.raises(DataError, match="NaN or inf"):
        session.feed(tokens)
    with torch.no_grad():
        parameter.copy_(kept)
    assert int(session.seen) == 3
    assert_same(session.feed(tokens, "log_probs"), untouched.feed(tokens, "log_probs"))
    assert_same_state(session.close(), untouched.close())
    assert session.score() == untouched.score()


@pytest.mark.parametrize("segment", [0, 1, 2, 3])
def test_a_piece_is_fed_whole_or_not_at_all(segment):
    model, tokens = build(configuration("transformer_xl_rmt")), torch.full((1, TOTAL), 1)
    tokens[0, segment * LENGTH + 1] = 3
    session, untouched = (Session(model, segment_length=LENGTH) for _ in range(2))
    kept = model.embedding.weight[3].detach().clone()
    with torch.no_grad():
        model.embedding.weight[3] = float("inf")
    for returns in ("nothing", "log_probs", "hidden"):
        with pytest.raises(DataError, match="hidden states have NaN or inf"):
            session.feed(tokens, returns)
    with torch.no_grad():
        model.embedding.weight[3] = kept
    assert int(session.seen) == 0
    assert_same(session.feed(tokens, "hidden"), untouched.feed(tokens, "hidden"))
    assert_same_state(session.close(), untouched.close())
    assert session.score() == untouched.score()


def test_damaged_memory_is_noticed_at_once():
    model = build(configuration("rmt"))
    with torch.no_grad():
        model.memory.tokens.weight[0, 0] = float("nan")
    session = Session(model, segment_length=LENGTH)
    with pytest.raises(DataError, match="NaN or inf"):
        session.feed([1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "segment_length is missing"),
        ({"segment_length": 0}, "segment_length=0 must be above 0"),
        ({"segment_length": 4, "batch": 0}, "batch=0 must be above 0"),
    ],
    ids=["no length", "length 0", "batch 0"],
)
def test_a_session_that_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Session(build(configuration("rmt")), **options)


def test_positions_of_the_original_code_are_refused():
    with pytest.raises(ConfigError, match=r"relative-lm-rmt.*use positions='relative'"):
        Session(build(configuration("rmt", positions="relative-lm-rmt")), segment_length=LENGTH)


def test_an_unknown_wish_is_refused():
    with pytest.raises(ConfigError, match="returns='logprobs' is not one of nothing, log_probs, hidden"):
        Session(build(configuration("rmt")), segment_length=LENGTH).feed([1], "logprobs")


def test_a_session_leaves_the_autocast_of_its_caller_alone():
    model, tokens = build(configuration("rmt")).float(), random_tokens(1, TOTAL)
    plain = Session(model, segment_length=LENGTH)
    half = Session(model, segment_length=LENGTH, precision="bf16-mixed")
    with torch.autocast("cpu", torch.bfloat16):
        scores = plain.feed(tokens, returns="log_probs")
    assert torch.equal(scores[:, 1:], half.feed(tokens, returns="log_probs")[:, 1:])
