"""`rmt stream` and `rmt generate`, as a user calls them."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rmt as package
from tests.cli.command import TINY, rmt

TEXT = "so long as a text goes on, so long goes this; " * 24
TINY_TEXT = (
    "--batch 2 --steps 2 --device cpu --memory 2 --task.segment_length 8 --model.layers 1 --model.heads 1 "
    "--model.head_width 4 --model.width 8 --model.inner_width 8 --quiet"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, a run of that text, and a run of a task."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert package_main(f"train text --data text --out run {TINY_TEXT}") == 0
        assert package_main(f"train text --data text --out letters --task.tokens characters {TINY_TEXT}") == 0
        assert package_main(f"train tests.train.runs:Echo {TINY} --out task --quiet") == 0
    return folder


def package_main(command: str) -> int:
    from rmt.cli.main import main

    return main(command.split())


@pytest.fixture(autouse=True)
def at_the_runs(runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text", "run", "letters", "task", "data"):
        (tmp_path / name).symlink_to(runs / name)


def test_a_file_is_read_to_its_end(capsys):
    code, out, _ = rmt(capsys, "stream run text --json --device cpu")
    found = json.loads(out)
    assert code == 0
    assert found["bytes"] == found["tokens"] == len(TEXT)
    assert found["state_bytes"] == 2 * 8 * 4
    assert 1 < found["perplexity"] < 400
    assert found["unknown"] == 0


def test_the_result_says_speed_perplexity_and_size(capsys):
    code, out, _ = rmt(capsys, "stream run text --device cpu --quiet")
    assert code == 0
    for said in (f"{len(TEXT):,} bytes", "bytes/s", "tokens/s", "perplexity", "state 64 bytes"):
        assert said in out


def test_standard_input_is_read(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(TEXT.encode()))))
    piped = json.loads(rmt(capsys, "stream run - --json --device cpu").out)
    file = json.loads(rmt(capsys, "stream run text --json --device cpu").out)
    assert piped["perplexity"] == pytest.approx(file["perplexity"], rel=1e-9)


def test_a_stream_in_two_parts_is_one_stream(capsys):
    text = Path("text").read_text()
    Path("first").write_text(text[:603])
    Path("second").write_text(text[603:])
    whole = json.loads(rmt(capsys, "stream run text --json --device cpu").out)
    assert rmt(capsys, "stream run first --save state --quiet --device cpu").code == 0
    code, out, err = rmt(capsys, "stream run second --resume state --json --device cpu")
    assert code == 0
    assert json.loads(out)["perplexity"] == pytest.approx(whole["perplexity"], rel=1e-6)
    assert json.loads(out)["all_tokens"] == len(TEXT)
    assert "going on after 603 tokens" in err
    assert "cut off" not in err


def test_a_finished_stream_has_nothing_more_to_read(capsys):
    rmt(capsys, "stream run text --save state --quiet --device cpu")
    code, out, err = rmt(capsys, "stream run text --resume state --json --device cpu")
    assert (code, json.loads(out)["tokens"]) == (0, 0)
    assert f"resuming at byte {len(TEXT):,}" in err


def test_kill_9_loses_at_most_save_every_segments_and_resuming_says_so(capsys):
    environment = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}
    command = "-m rmt.cli.main stream run - --save state --save_every 5 --device cpu"
    process = subprocess.Popen(
        [sys.executable, *shlex.split(command)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    process.stdin.write(TEXT.encode()[:800])
    process.stdin.flush()
    deadline = time.monotonic() + 120
    while not Path("state").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    code, out, err = rmt(capsys, "stream run text --resume state --json --device cpu")
    assert code == 0
    assert "was cut off, so up to 5 segments of it are read again" in err
    assert json.loads(out)["bytes"] == len(TEXT)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stream run nowhere", ["file='nowhere'", "does not exist"]),
        ("stream run run", ["file='run' is a folder"]),
        ("stream nowhere text", ["run 'nowhere' does not exist"]),
        ("stream run text --save_every 3", ["save_every=3 has no effect", "--save"]),
        ("stream run text --save state --save_every 0", ["save_every=0", "above 0"]),
        ("stream run text --save text", ["save='text' exists", "--resume text"]),
        ("stream run text --save no/state", ["save='no/state'", "does not exist"]),
        ("stream run text --resume nowhere", ["'nowhere' does not exist"]),
        ("stream run text --resume text", ["session 'text' is damaged"]),
        ("stream run text --device tpu", ["device='tpu'", "auto, cpu, cuda"]),
        ("generate run", ["prompt is missing", "--prompt"]),
        ("generate run --prompt so --tokens -1", ["tokens=-1", "at least 0"]),
        ("generate run --prompt so --temperature 0 --top_k 3", ["top_k=3 has no effect"]),
        (
            "generate letters --prompt soÄ",
            ["character 'Ä' (U+00C4, bytes c3 84) at byte 2 of the prompt is not"],
        ),
        ("generate task --prompt z", ["token 'z' at byte 0 of the prompt is not in the model's vocabulary"]),
        ("generate run --prompt so --file text", ["prompt and file='text'", "leave one out"]),
        ("generate run --file nowhere", ["'nowhere' does not exist"]),
        ("stream run text --unknown drop", ["unknown='drop' is not error, skip or replace:SYMBOL"]),
        ("stream run text --unknown replace:", ["unknown='replace:' is not error, skip or replace:SYMBOL"]),
        (
            "stream letters text --unknown replace:Q",
            ["replace:Q names a symbol that the model does not know"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_one_line(capsys, command, said):
    code, out, err = rmt(capsys, command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    for words in said:
        assert words in err


def test_a_state_of_another_run_is_refused(capsys):
    rmt(capsys, f"train text --data text --out other {TINY_TEXT} --seed 1")
    rmt(capsys, "stream other text --save state --quiet --device cpu")
    code, _, err = rmt(capsys, "stream run text --resume state --device cpu")
    assert code == 2
    assert "is of another model" in err


def test_the_same_seed_writes_the_same_text(capsys):
    first = rmt(capsys, "generate letters --prompt so --tokens 30 --seed 4 --device cpu")
    assert first.code == 0
    assert len(first.out) == 31
    assert first == rmt(capsys, "generate letters --prompt so --tokens 30 --seed 4 --device cpu")
    assert first != rmt(capsys, "generate letters --prompt so --tokens 30 --seed 5 --device cpu")


def test_generation_ends_behind_a_text(capsys):
    out = rmt(capsys, "generate run --prompt so --tokens 400 --seed 4 --stop o --device cpu").out
    assert out.endswith("o\n")
    assert out.count("o") == 1


def test_a_streamed_text_is_gone_on_with(capsys):
    rmt(capsys, "stream letters text --save state --quiet --device cpu")
    resumed = rmt(capsys, "generate letters --resume state --tokens 20 --seed 1 --device cpu")
    Path("prompt").write_text(TEXT)
    assert resumed.code == 0
    assert len(resumed.out) == 21


def test_a_task_is_answered_in_its_own_symbols(capsys):
    code, out, _ = rmt(capsys, "generate task --prompt 1 --tokens 6 --seed 0 --device cpu")
    assert code == 0
    assert set(out.split()) <= {".", "|", *"0123456789"}
    assert len(out.split()) == 6


@pytest.mark.covering
@pytest.mark.parametrize("changed", [0, len(TEXT) // 2, len(TEXT) - 1], ids=["first", "middle", "last"])
@pytest.mark.parametrize("more", ["", "and so on"], ids=["same length", "longer"])
def test_a_replaced_file_is_not_gone_on_with(capsys, changed, more):
    text = Path("long.txt")
    text.write_text(TEXT)
    assert rmt(capsys, "stream run long.txt --save state --device cpu --quiet").code == 0
    text.write_text(TEXT[:changed] + "S" + TEXT[changed + 1 :] + more)
    code, out, err = rmt(capsys, "stream run long.txt --resume state --device cpu --quiet --unknown skip")
    assert (code, out) == (2, "")
    assert "is another text now than the one of which this session has read 1,104 bytes" in err
