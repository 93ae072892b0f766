"""Nothing that a file holds commands a terminal, or breaks a table."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rmt.cli.main import main
from rmt.cli.terminal import cell, console, printable_output, write_text
from tests.cli.command import TINY

ESCAPE = "\x1b]0;title\x07\x1b[31m"
STRANGE = ["[/bold]x", "[red]x[/red]", f"x{ESCAPE}y", "two\nlines", "\u202eturned", ":smile:"]


class Terminal(io.TextIOWrapper):
    """A terminal that keeps what it is given."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert main([*f"train copy {TINY} --quiet --out".split(), str(folder)]) == 0
    return folder


@pytest.mark.covering
@pytest.mark.parametrize("name", STRANGE, ids=ascii)
@pytest.mark.parametrize("options", [[], ["--json"], ["--sort", "value"]], ids=["table", "json", "sorted"])
def test_a_folder_of_any_name_is_listed(name, options, finished, capsys):
    shutil.copytree(finished, Path("runs") / name)
    capsys.readouterr()
    assert main(["runs", *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert not set("\x1b\x07\u202e") & set(out)
    shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
    assert ("".join(out.split()).count("".join(shown.split())) == 1) or "--json" in options


@pytest.mark.parametrize("name", STRANGE, ids=ascii)
def test_a_missing_folder_of_any_name_is_one_printable_line(name, capsys):
    assert main(["evaluate", name]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert not set("\x1b\x07\u202e") & set(err)


def test_results_of_any_content_are_reported_without_escape_sequences(finished, capsys):
    result = json.loads((finished / "result.json").read_text())
    result["task"] = result["model"] = result["config"]["task"]["name"] = ESCAPE
    Path("results.jsonl").write_text(json.dumps(result) + "\n")
    capsys.readouterr()
    assert main(["report", "results.jsonl"]) in (0, 2)
    assert "\x1b" not in "".join(capsys.readouterr())


def test_what_an_encoding_does_not_have_is_printed_by_its_code(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    with printable_output():
        print("± \udc80 \x1b")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xb1 \\udc80 \\x1b\n"


def test_a_text_of_a_model_goes_unchanged_into_a_pipe_and_printable_into_a_terminal(monkeypatch):
    for kind, expected in ((io.TextIOWrapper, b"a\x1b[1m\n"), (Terminal, b"a\\x1b[1m\n")):
        stream = kind(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(sys, "stdout", stream)
        with printable_output():
            write_text("a\x1b[1m\n")
        assert stream.buffer.getvalue() == expected


def test_rich_draws_in_a_terminal_and_takes_no_cell_for_markup(monkeypatch):
    stream = Terminal(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with printable_output():
        assert console().is_terminal
        console().print(cell("[/bold]\x1b[1m"))
    stream.flush()
    assert stream.buffer.getvalue().strip() == b"[/bold]\\x1b[1m"


@pytest.mark.parametrize(
    ("command", "closed", "expected"),
    [
        ("--version", ">&-", (0, "")),
        ("help", ">&-", (0, "")),
        ("data list", ">&-", (0, "")),
        ("data list", ">&- 2>&- <&-", (0, "")),
        ("data nonsense", ">&-", (2, "rmt: unknown data command")),
        ("data nonsense", "2>&-", (2, "")),
        (f"train copy {TINY} --out run", ">&-", (0, "")),
        (f"train copy {TINY} --out run", "2>&-", (0, "")),
        ("stream {run} - --quiet", "<&-", (0, "")),
        ("generate {run} --prompt -", "<&-", (2, "rmt: prompt='-', standard input, has no text")),
        ("generate {run} --interactive", "<&-", (0, "rmt: type a line")),
    ],
)
def test_a_closed_stream_takes_everything_and_gives_nothing(command, closed, expected, finished):
    script = f"{sys.executable} -m rmt {command.format(run=finished)} {closed}"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stderr[: len(expected[1])]) == expected
    assert process.stderr.count("\n") == bool(expected[1])
    assert process.stdout == "" or ">&-" not in closed.split()


def test_no_file_of_a_run_takes_the_place_of_a_closed_stream(finished):
    script = f"{sys.executable} -m rmt train copy {TINY} --out run <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", script]).returncode == 0
    assert Path("run/config.yaml").read_bytes() == (finished / "config.yaml").read_bytes()


def test_a_table_that_nobody_reads_any_more_ends_like_everything_else_that_is_printed(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        console().print("a line")
