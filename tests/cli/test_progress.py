"""What a person sees of a run: a bar in a terminal, lines in a pipe, warnings only when quiet."""

import io

import pytest
from rich.console import Console

from rmt.cli import notes, progress
from rmt.cli.progress import Bar, Lines, Quiet, live, observer, observers

LOGGED = {"step": 3, "loss": 1.25, "tokens_per_second": 2500.0}
EVALUATED = {"step": 4, "accuracy": 0.5, "sequence_accuracy": 0.25}


def test_lines_tell_evaluations_with_the_loss_before_them(capsys):
    lines = Lines("rmt")
    lines.logged(LOGGED)
    assert capsys.readouterr() == ("", "")
    lines.evaluated(EVALUATED)
    lines.note("resuming at step 2")
    lines.testing(5, 10)
    assert capsys.readouterr() == (
        "rmt  step 4  loss 1.250  accuracy 0.5000  sequences 0.2500\nrmt  resuming at step 2\n",
        "",
    )


def test_quiet_passes_on_messages_only_and_on_stderr(capsys):
    quiet = Quiet()
    quiet.logged(LOGGED)
    quiet.evaluated(EVALUATED)
    quiet.testing(5, 10)
    quiet.note("resuming")
    quiet.warning("checkpoint is damaged")
    assert capsys.readouterr() == ("", "rmt: checkpoint is damaged\n")


def test_the_bar_shows_loss_accuracy_and_speed():
    screen = io.StringIO()
    with Bar("rmt", 10, live(Console(file=screen, force_terminal=True, width=120))) as bar:
        bar.evaluated(EVALUATED)
        bar.logged(LOGGED)
        bar.note("promoted")
        bar.progress.refresh()
    shown = screen.getvalue()
    for words in ("3/10", "loss 1.250", "accuracy 0.500", "2.5k tok/s", "rmt  promoted"):
        assert words in shown


def test_runs_that_go_on_together_have_a_bar_each(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(progress, "console", lambda: console)
    first, second = observers(["rmt seed 0", "rmt seed 1"], 10, quiet=False)
    with first, second:
        first.logged(LOGGED)
        second.logged({**LOGGED, "step": 4, "loss": 2.5})
        first.progress.refresh()
        shown = screen.getvalue()
    for words in ("rmt seed 0", "3/10", "loss 1.250", "rmt seed 1", "4/10", "loss 2.500"):
        assert words in shown


@pytest.mark.parametrize(
    ("terminal", "quiet", "kind"),
    [(True, False, Bar), (False, False, Lines), (True, True, Quiet), (False, True, Quiet)],
    ids=["terminal", "pipe", "quiet-terminal", "quiet-pipe"],
)
def test_the_observer_fits_where_the_output_goes(monkeypatch, terminal, quiet, kind):
    monkeypatch.setattr(progress, "console", lambda: Console(file=io.StringIO(), force_terminal=terminal))
    assert type(observer("rmt", 10, quiet)) is kind


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(notes.time, "monotonic", lambda: self.now)


def test_a_long_test_is_told_now_and_then_in_a_pipe_and_a_short_one_is_not(monkeypatch, capsys):
    clock, lines = Hand(monkeypatch), Lines("rmt")
    for second, done in enumerate(range(0, 10_001, 400)):
        clock.now = float(second)
        lines.testing(done, 10_000)
    assert capsys.readouterr().out == "rmt  test 4,000/10,000\nrmt  test 8,000/10,000\n"


def test_an_evaluation_is_told_on_stderr_in_a_pipe_unless_quiet(monkeypatch, capsys):
    for quiet, expected in ((False, "rmt: test 7/9\n"), (True, "")):
        clock = Hand(monkeypatch)
        with progress.counting("test", quiet) as tell:
            tell(0, 9)
            clock.now = notes.PAUSE
            tell(7, 9)
        assert capsys.readouterr() == ("", expected)


def test_the_bar_turns_to_the_test_as_soon_as_it_begins():
    screen = io.StringIO()
    with Bar("rmt", 10, live(Console(file=screen, force_terminal=True, width=120))) as bar:
        bar.logged(LOGGED)
        bar.testing(0, 500)
        bar.progress.refresh()
    assert "rmt (test)" in screen.getvalue()
    assert "0/500" in screen.getvalue()
