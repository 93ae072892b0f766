"""A stream that is cut off goes on from its last save and ends as if nothing had happened."""

import signal
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from rmt import SegmentModel, Session, presets
from rmt.experiments.stream import TextStream, checksum, saved_position
from rmt.stopping import handling_signals
from rmt.text.codes import Bytes
from rmt.text.tokenizer import ByteTokenizer

LENGTH = 8
TEXT = (b"so long as a text goes on, so long goes this; " * 40)[:1501]


class Unplugged(BaseException):
    """The end of a process, as far as one process can play it."""


@pytest.fixture
def model() -> SegmentModel:
    torch.manual_seed(0)
    config = presets.rmt(2, vocabulary=256, layers=1, heads=1, head_width=4, width=8, inner_width=8)
    return SegmentModel(config).eval()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_bytes(TEXT)
    return tmp_path / "text"


def new_session(model: SegmentModel) -> Session:
    return Session(model, ByteTokenizer(Bytes(range(256))), LENGTH)


def unplug() -> None:
    raise Unplugged


def stream(session: Session, text: Path, every: int = 4, stop: int | None = None, how=unplug) -> bool:
    """TextStream a text, unplugged, or whatever else, after `stop` blocks."""
    told: list[object] = []

    def tell(now: object) -> None:
        told.append(now)
        if len(told) == stop:
            how()

    with text.open("rb") as file:
        flow = TextStream(session, str(text), file, text.with_name("state"), every)
        if session.note:
            flow.take_up(saved_position(session))
        return flow.run(tell)


@pytest.mark.covering
@pytest.mark.parametrize("every", [1, 4, 9])
@pytest.mark.parametrize("stop", [12, 31, 50])
def test_a_stream_that_was_killed_goes_on_and_ends_as_if_nothing_had_happened(model, text, every, stop):
    whole, killed = new_session(model), new_session(model)
    whole.feed(text)
    with pytest.raises(Unplugged):
        stream(killed, text, every, stop)
    taken_up = Session.load(text.with_name("state"), model, killed.tokenizer)
    place = saved_position(taken_up)
    assert not place.clean
    assert place.offset == int(taken_up.seen)
    assert 0 <= int(killed.seen) - place.offset <= every * LENGTH
    assert stream(taken_up, text, every)
    assert int(taken_up.seen) == len(TEXT)
    assert taken_up.score() == pytest.approx(whole.score(), rel=1e-6)
    torch.testing.assert_close(taken_up.state.memory, whole.state.memory)


@pytest.mark.parametrize("blocks", [pytest.param(1, marks=pytest.mark.slow), 3, 20])
def test_a_stream_that_signals_stopped_again_and_again_ends_with_the_bits_of_one_that_ran_through(
    model, text, blocks
):
    whole, session, stops = new_session(model), new_session(model), 0
    assert stream(whole, text)
    finished = False
    while not finished:
        with handling_signals():
            finished = stream(session, text, stop=blocks, how=lambda: signal.raise_signal(signal.SIGTERM))
        session, stops = Session.load(text.with_name("state"), model, session.tokenizer), stops + 1
    assert stops > 2
    assert session.score() == whole.score()
    assert torch.equal(session.state.memory, whole.state.memory)


def test_a_stream_that_ends_is_saved_to_its_last_byte(model, text):
    session = new_session(model)
    assert stream(session, text)
    saved = Session.load(text.with_name("state"), model, session.tokenizer)
    assert saved_position(saved) == (str(text), len(TEXT), 4, True, checksum(TEXT), sha256(TEXT).hexdigest())
    assert saved.score() == session.score()


def test_ctrl_c_saves_where_it_stands(model, text):
    session, told, before = new_session(model), [], signal.getsignal(signal.SIGINT)

    def tell(now: object) -> None:
        told.append(now)
        if len(told) == 5:
            signal.raise_signal(signal.SIGINT)

    with text.open("rb") as file, handling_signals():
        flow = TextStream(session, str(text), file, text.with_name("state"), 100)
        assert not flow.run(tell)
    place = saved_position(Session.load(text.with_name("state"), model, session.tokenizer))
    assert place.clean
    assert place.offset == int(session.seen) < len(TEXT)
    assert len(told) == 5
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_tells_bytes_tokens_and_the_size_of_the_state(model, text):
    told = []
    with text.open("rb") as file:
        TextStream(new_session(model), str(text), file, None, 4).run(told.append)
    assert (told[-1].bytes, told[-1].total, told[-1].tokens) == (len(TEXT), len(TEXT), len(TEXT))
    assert {now.state_bytes for now in told} == {2 * 8 * 4}
    assert min(now.bytes_per_second for now in told) > 0
