"""A first signal waits for a border where work is deferred; elsewhere, as a second one, it stops at once."""

import os
import signal
import sys
import threading
import time

import pytest

from rmt.errors import RMTError
from rmt.stopping import (
    PARENT,
    REQUEST,
    SIGNALS,
    Interrupted,
    Stopped,
    StopRequest,
    handling_signals,
    hang_up_with_parent,
    reraising_interruptions,
)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_while_work_is_deferred_and_a_second_stops_at_once(number):
    request = StopRequest()
    with request.set_deferred(True):
        request(number)
        assert request.signal == number
        with pytest.raises(Interrupted) as stopped:
            request(signal.SIGINT)
    assert stopped.value.exit_code == 128 + signal.SIGINT
    assert request.signal == number


def test_a_signal_stops_at_once_where_there_is_nothing_to_save():
    request = StopRequest()
    with request.set_deferred(True), pytest.raises(Interrupted, match="SIGHUP"), request.at_once():
        request(signal.SIGHUP)
    with pytest.raises(Interrupted):
        StopRequest()(signal.SIGTERM)


def test_a_signal_that_nobody_answered_stops_behind_the_work():
    request, done = StopRequest(), []

    def work() -> None:
        with request.deferred():
            with request.deferred():
                request(signal.SIGTERM)
            done.append("the outer work")

    with pytest.raises(Interrupted, match="interrupted by SIGTERM"):
        work()
    assert done == ["the outer work"]


def interrupted_within(library) -> None:
    with handling_signals(), reraising_interruptions():
        library()


def test_an_error_that_a_library_makes_of_an_interruption_is_the_interruption():
    def swallow() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except BaseException:
            raise ValueError("could not determine the shape") from None

    with pytest.raises(Interrupted, match="interrupted by SIGTERM"):
        interrupted_within(swallow)


def test_an_error_of_its_own_stays_one_and_so_does_a_stop():
    def fail() -> None:
        raise ValueError("its own")

    def stop() -> None:
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        raise Stopped(signal.SIGTERM, "step 3 is saved")

    with pytest.raises(ValueError, match="its own"):
        interrupted_within(fail)
    with pytest.raises(Stopped):
        interrupted_within(stop)


def test_handlers_are_put_back_and_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        others = [signal.getsignal(number) for number in SIGNALS]
        with handling_signals():
            assert signal.getsignal(signal.SIGTERM) is REQUEST
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            with pytest.raises(Interrupted):
                signal.raise_signal(signal.SIGTERM)
        assert [signal.getsignal(number) for number in SIGNALS] == others
        assert REQUEST.signal == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_than_the_main_one_installs_nothing():
    seen = []

    def look() -> None:
        with handling_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_a_stop_is_a_line_with_the_exit_code_that_shells_know():
    stopped = Stopped(signal.SIGTERM, "step 3 is saved")
    assert isinstance(stopped, RMTError)
    assert (str(stopped), stopped.exit_code) == ("stopped by SIGTERM; step 3 is saved", 143)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_process_is_asked_to_stop_when_the_one_that_started_it_is_gone():
    receiver, sender = os.pipe()
    starter = os.fork()
    if not starter:
        if not os.fork():
            wait_to_be_stopped(sender)
        time.sleep(60)
    os.close(sender)
    assert os.read(receiver, 100) == b"ready"
    os.kill(starter, signal.SIGKILL)
    os.waitpid(starter, 0)
    assert os.read(receiver, 100) == b"interrupted by SIGHUP"


def wait_to_be_stopped(sender: int) -> None:
    """Write down what ends this process."""
    try:
        with handling_signals():
            hang_up_with_parent()
            os.write(sender, b"ready")
            time.sleep(60)
    except Interrupted as error:
        os.write(sender, str(error).encode())
    finally:
        os._exit(0)


def test_a_process_whose_starter_was_gone_before_it_listened_is_asked_to_stop_at_once(monkeypatch):
    monkeypatch.setenv(PARENT, str(os.getppid()))  # not the one that forks it
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        wait_to_be_stopped(sender)
    os.close(sender)
    assert os.read(receiver, 100) == b"interrupted by SIGHUP"
    os.waitpid(child, 0)
