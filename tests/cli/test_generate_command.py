"""`rmt generate`: saved, interrupted, in conversation."""

import io
import re
import signal

import pytest

from rmt.cli.main import main
from rmt.stopping import REQUEST
from tests.cli.command import rmt

TINY_TEXT = (
    "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8 --steps 2 "
    "--batch 2 --task.segment_length 8 --memory 2 --device cpu"
)
PLAIN = "--seed 4 --device cpu"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_text("so it goes on and on, " * 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = f"train text --data text --task.tokens characters --out run --quiet {TINY_TEXT}"
        assert main(words.split()) == 0
    return folder / "run"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_was_saved_goes_on_as_if_never_stopped(capsys, trained):
    whole = rmt(capsys, f"generate {trained} --prompt so --tokens 12 --temperature 0 {PLAIN}").out
    first = rmt(capsys, f"generate {trained} --prompt so --tokens 5 --temperature 0 --save s {PLAIN}").out
    second = rmt(capsys, f"generate {trained} --resume s --tokens 7 --temperature 0 --save s {PLAIN}").out
    assert first[:-1] + second[:-1] == whole[:-1]
    code, out, err = rmt(capsys, f"generate {trained} --prompt so --save s {PLAIN}")
    assert (code, out) == (2, "")
    assert err == "rmt: save='s' exists; go on from it with --resume s, or name another\n"


@pytest.mark.parametrize(
    ("save", "told"),
    [("--save s", "saved; go on with --resume s"), ("", "not saved; name a file with --save")],
    ids=["saved", "not saved"],
)
def test_a_signal_ends_behind_a_token_and_says_so(capsys, trained, monkeypatch, save, told):
    from rmt.cli import generate

    original, written = generate.write_text, []

    def write_text(text):
        original(text)
        written.append(text)
        if len(written) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(generate, "write_text", write_text)
    code, out, err = rmt(capsys, f"generate {trained} --prompt so --tokens 50 {save} {PLAIN}")
    assert code == 130
    assert len(out) == 4
    assert err == f"rmt: stopped by SIGINT; 3 tokens are written and {told}\n"
    assert REQUEST.signal == 0


def test_a_conversation_goes_on_in_one_session(capsys, trained, monkeypatch):
    lines = "\nso it\n♜\ngoes\n".encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines), "utf-8"))
    code, out, err = rmt(capsys, f"generate {trained} --interactive --tokens 6 --temperature 0 {PLAIN}")
    assert code == 0
    answers = out.splitlines()
    assert [len(answer) for answer in answers] == [6, 6]
    assert re.search("rmt: .*♜.*is not in the model's vocabulary", err)
    first = rmt(capsys, f"generate {trained} --file prompt --tokens 6 --temperature 0 {PLAIN}")
    assert first.code == 2
    prompt = ["generate", str(trained), "--prompt", f"so it{answers[0]}goes", "--tokens", "6"]
    assert main([*prompt, "--temperature", "0", *PLAIN.split()]) == 0
    assert capsys.readouterr().out == f"{answers[1]}\n"


def test_a_line_of_a_conversation_may_be_a_dash_or_no_text_at_all(capsys, trained, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"so it\n-\nso\xe9\ngoes\n"), "utf-8"))
    save = tmp_path / "talk.state"
    talk = f"generate {trained} --interactive --tokens 6 --temperature 0 --save {save} {PLAIN}"
    code, out, err = rmt(capsys, talk)
    assert code == 0
    assert [len(answer) for answer in out.splitlines()] == [6, 6]
    assert "rmt: character '-' (U+002D, bytes 2d) at byte 0 of the line is not in the model" in err
    assert err.count("at byte 2 of the line is not in the model's vocabulary") == 1
    assert save.exists()


def test_a_conversation_takes_standard_input_alone(capsys, trained):
    code, _, err = rmt(capsys, f"generate {trained} --interactive --prompt -")
    assert code == 2
    assert "prompt=- and interactive would both take standard input; leave one out" in err
