"""What a person sees of a run: a bar in a terminal, lines in a pipe, warnings only when quiet."""

import io

import pytest
from rich.console import Console

from rmt.cli import progress
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
