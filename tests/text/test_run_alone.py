"""A run folder needs nothing beside itself: moved, with its text deleted, it computes the same bits."""

import gzip
import json
import lzma
import os
import shutil
import threading
from pathlib import Path

import pytest
import torch
import yaml

from rmt.experiments.stream import open_session
from tests.cli.book import TRAIN, write_book
from tests.cli.command import TINY, rmt, varied
from tests.covering import quick
from tests.tasks.stories import write_data
from tests.text.tokenizer import trained

STREAM = "--device cpu --json --quiet"
KINDS = ("bytes", "characters", "words")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a book, runs trained from it, and what they were trained from."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_book()
        for kind in KINDS:
            options = "--batch 2 --task.segment_length 4" if kind == "words" else ""
            run(f"{TRAIN} {options} --task.tokens {kind} --out {kind} --quiet")
        run(f"train tests.train.runs:Echo {TINY} --out echo --quiet")
    return folder


@pytest.fixture
def away(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder, with the runs and nothing else."""
    for name in (*KINDS, "echo"):
        shutil.copytree(home / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str) -> None:
    from rmt.cli.main import main

    assert main(varied(command)) == 0


def streamed(capsys, command: str) -> dict:
    code, out, err = rmt(capsys, f"stream {command} {STREAM}")
    assert code == 0, err
    found = json.loads(out)
    found.pop("seconds")
    return found


def everything(capsys, name: str) -> list:
    """What a run computes of a text, by every way there is."""
    Path("tale.txt").write_text("the was of and to in a that is it\nas on are for")
    session = open_session(name, "cpu")
    log_probs = session.feed(Path("tale.txt"), "log_probs")
    written = rmt(capsys, f"generate {name} --prompt was --tokens 40 --seed 3 --device cpu")
    page = rmt(capsys, f"attention {name} --text was -o page.html")
    assert (written.code, page.code) == (0, 0), written.err + page.err
    return [
        session.state.memory,
        log_probs[:, 1:],
        streamed(capsys, f"{name} tale.txt"),
        written.out,
        Path("page.html").read_text(),
    ]


@pytest.mark.parametrize("name", KINDS)
def test_a_moved_run_without_its_text_computes_the_same_bits(home, away, monkeypatch, capsys, name):
    monkeypatch.chdir(home)
    before = everything(capsys, name)
    monkeypatch.chdir(away)
    after = everything(capsys, name)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(before[:2], after[:2], strict=True))
    assert before[2:] == after[2:]
    assert not Path("data").exists()  # and nothing was prepared


def test_a_run_of_a_tokenizer_of_ones_own_needs_its_folder_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_book()
    trained().save("tokenizer.json")
    run("data prepare book.txt --tokenizer tokenizer.json --out prepared")
    run(f"{TRAIN.replace('book.txt', 'prepared')} --batch 2 --out run --quiet")
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == Path("tokenizer.json").read_bytes()
    before = streamed(capsys, "run book.txt")
    (tmp_path / "away").mkdir()
    shutil.move("run", "away/run")
    shutil.copy("book.txt", "away/book.txt")
    shutil.rmtree("prepared")
    monkeypatch.chdir("away")
    assert streamed(capsys, "run book.txt") == before


def test_a_run_of_a_task_of_ones_own_is_used_where_its_module_is_not(away, capsys):
    config = yaml.safe_load((away / "echo" / "config.yaml").read_text())
    config["task"]["name"] = "gone.module:Echo"
    del config["sha256"]  # edited on purpose
    (away / "echo" / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    assert rmt(capsys, "generate echo --prompt 1 --tokens 6 --device cpu").code == 0
    assert rmt(capsys, "attention echo --text 1 -o page.html").code == 0


def test_a_run_of_memory_qa_needs_its_novels_only_to_be_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = write_data(tmp_path)
    tiny = TINY.replace("--length 3", "--length 64").replace("--segments 3", "--segments 4")
    run(f"train memory-qa --data data --task.options buckets=30 {tiny} --out run --quiet")
    generate = "generate run --prompt Where:is:Mary --tokens 3 --temperature 0 --device cpu"
    before, measured = rmt(capsys, generate), rmt(capsys, "evaluate run --json --samples 4")
    assert (before.code, measured.code) == (0, 0)
    shutil.move(data, tmp_path / "elsewhere")
    assert rmt(capsys, generate) == before
    assert "data='data' does not exist; say where" in rmt(capsys, "evaluate run --json --samples 4").err
    assert rmt(capsys, "evaluate run --json --samples 4 --data elsewhere") == measured
    with next((tmp_path / "elsewhere" / "books").iterdir()).open("a") as novel:
        novel.write("the end\n")
    assert "is another corpus" in rmt(capsys, "evaluate run --json --samples 4 --data elsewhere").err


def test_a_saved_session_moved_with_its_run_and_text_goes_on(home, away, monkeypatch, capsys):
    text = b"it was the best of times, it was the worst of times, " * 9
    (away / "book.txt").write_bytes(text)
    whole = streamed(capsys, "bytes book.txt")
    (away / "elsewhere").mkdir()
    (away / "book.txt").write_bytes(text[:200])
    streamed(capsys, "bytes book.txt --save book.state")
    (away / "book.txt").unlink()
    for name in ("bytes", "book.state"):
        shutil.move(away / name, away / "elsewhere" / name)
    (away / "elsewhere" / "book.txt").write_bytes(text)
    monkeypatch.chdir(away / "elsewhere")
    rest = streamed(capsys, "bytes book.txt --resume book.state")
    assert rest["bytes"] == len(text) - 200
    assert rest["perplexity"] == pytest.approx(whole["perplexity"], rel=1e-6)
    assert rest["all_tokens"] == whole["all_tokens"]


@pytest.mark.parametrize("other", ["it was the best of t", "it was the best of tides"], ids=len)
def test_another_text_under_the_same_name_is_not_gone_on_with(away, capsys, other):
    Path("book.txt").write_text("it was the best of times")
    streamed(capsys, "bytes book.txt --save book.state")
    Path("book.txt").write_text(other)
    code, out, err = rmt(capsys, f"stream bytes book.txt --resume book.state {STREAM}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is another text now than the one of which this session has read 24 bytes" in err
    shutil.copy("book.txt", "volume2.txt")
    assert streamed(capsys, "bytes volume2.txt --resume book.state --save two.state")["bytes"] == len(other)


EVERY_BYTE = bytes(range(256)) * 3


@pytest.mark.parametrize(
    "text",
    [EVERY_BYTE, b"it was\r\nthe best\r\n" * 9, "“Käse”".encode("latin-1", "replace") * 9],
    ids=["every-byte", "crlf", "latin-1"],
)
def test_a_model_of_bytes_reads_every_text(away, capsys, text):
    Path("text").write_bytes(text)
    assert streamed(capsys, "bytes text")["tokens"] == len(text)


PACKERS = {"text.gz": gzip.compress, "text.xz": lzma.compress}


@pytest.mark.parametrize("name", quick({name: name for name in PACKERS}, "text.gz"))
def test_a_compressed_text_is_the_text(away, capsys, name):
    text = b"it was the best of times, " * 40
    Path("text").write_bytes(text)
    Path(name).write_bytes(PACKERS[name](text))
    plain = streamed(capsys, "bytes text")
    assert streamed(capsys, f"bytes {name}") == plain
    assert rmt(capsys, f"generate bytes --file {name} --tokens 5 --seed 0 --device cpu").code == 0
    session = open_session("bytes", "cpu")
    session.feed(Path(name))
    assert session.score().perplexity == plain["perplexity"]


@pytest.mark.parametrize("name", PACKERS)
def test_a_stream_of_a_compressed_text_is_taken_up(away, capsys, name):
    text = b"it was the best of times, " * 40
    Path(name).write_bytes(PACKERS[name](text[:500]))
    streamed(capsys, f"bytes {name} --save state")
    Path(name).write_bytes(PACKERS[name](text))
    assert streamed(capsys, f"bytes {name} --resume state")["bytes"] == len(text) - 500


@pytest.mark.parametrize(
    "content", [b"no archive", gzip.compress(b"it was the best" * 99, mtime=0)[:-9]], ids=["none", "cut"]
)
def test_a_damaged_archive_is_a_line(away, capsys, content):
    Path("text.gz").write_bytes(content)
    code, out, err = rmt(capsys, f"stream bytes text.gz {STREAM}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "text.gz' is not a whole .gz file" in err


def test_a_compressed_text_is_trained_on_as_the_text(home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_book()
    Path("book.txt.gz").write_bytes(gzip.compress(Path("book.txt").read_bytes()))
    run(f"{TRAIN.replace('book.txt', 'book.txt.gz')} --out packed --quiet")
    ours, theirs = (
        json.loads((place / "result.json").read_text()) for place in (Path("packed"), home / "bytes")
    )
    assert ours["metrics"] == theirs["metrics"]


def test_a_pipe_is_a_file_that_is_read_once(away, capsys):
    text = b"it was the best of times, " * 40
    Path("text").write_bytes(text)
    plain = streamed(capsys, "bytes text")
    os.mkfifo("pipe")

    def write() -> None:
        Path("pipe").write_bytes(text)

    for command in (
        f"stream bytes pipe --save state {STREAM}",
        "generate bytes --file pipe --tokens 3 --device cpu",
    ):
        writer = threading.Thread(target=write)
        writer.start()
        code, out, err = rmt(capsys, command)
        writer.join()
        assert code == 0, err
        if command.startswith("stream"):
            assert json.loads(out)["perplexity"] == pytest.approx(plain["perplexity"], rel=1e-9)
    writer = threading.Thread(target=write)
    writer.start()
    code, _, err = rmt(capsys, f"stream bytes pipe --resume state {STREAM}")
    writer.join()
    assert (code, err.count("\n")) == (2, 1)
    assert f"is a pipe: the {len(text):,} bytes read do not come again" in err


def test_a_symbol_that_a_model_does_not_know_is_named_and_can_be_passed(away, capsys):
    text = "it was the wést of tides\n" * 3
    Path("text").write_text(text)
    offset = text.encode().index("é".encode())
    code, out, err = rmt(capsys, f"stream characters text --save state {STREAM}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    said = (
        f"character 'é' (U+00E9, bytes c3 a9) at byte {offset:,} of '{away / 'text'}' is not in the model's"
    )
    assert said in err
    assert err.endswith("--unknown skip, or with --unknown replace:SYMBOL and --resume state\n")
    again = rmt(capsys, f"stream characters text --resume state {STREAM}")
    assert (again.code, said in again.err) == (2, True)
    rest = streamed(capsys, "characters text --resume state --unknown skip")
    whole = streamed(capsys, "characters text --unknown skip")
    assert (whole["unknown"], whole["tokens"]) == (3, len(text) - 3)
    assert rest["all_tokens"] == whole["all_tokens"]
    assert rest["perplexity"] == pytest.approx(whole["perplexity"], rel=1e-6)


def test_a_symbol_that_is_not_known_is_replaced_by_one_that_is(away, capsys):
    Path("text").write_bytes(b"it was\r\nthe \xc3\xa9st\xff")
    Path("twin").write_text("it wasa\nthe asta")
    replaced, twin = (
        streamed(capsys, "characters text --unknown replace:a"),
        streamed(capsys, "characters twin"),
    )
    assert replaced["unknown"] == 3
    assert (replaced["perplexity"], replaced["tokens"]) == (twin["perplexity"], twin["tokens"])


def test_bytes_that_are_no_text_are_named_by_their_value(away, capsys):
    Path("text").write_bytes(b"it was\xff")
    code, _, err = rmt(capsys, f"stream characters text {STREAM}")
    assert code == 2
    assert "byte 255, which is not UTF-8, at byte 6" in err


def test_words_that_are_not_known_go_by_the_rule(away, capsys):
    Path("text").write_text("the whale was in it\n")
    Path("twin").write_text("the was in it\n")
    code, _, err = rmt(capsys, f"stream words text {STREAM}")
    assert code == 2
    assert "word 'whale' at byte 4" in err
    skipped = streamed(capsys, "words text --unknown skip")
    assert (skipped["unknown"], skipped["tokens"]) == (1, 5)
    assert skipped["perplexity"] == streamed(capsys, "words twin")["perplexity"]


def test_an_evaluation_says_where_the_data_are_not_and_takes_where_they_are(home, away, capsys):
    expected = json.loads((home / "bytes" / "result.json").read_text())["metrics"]
    code, _, err = rmt(capsys, "evaluate bytes --json")
    assert (code, err.count("\n")) == (2, 1)
    assert "data='book.txt' does not exist; say where the data of this run are now with --data PATH" in err
    result = rmt(capsys, f"evaluate bytes --json --data {home / 'book.txt'}")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == pytest.approx(expected)
    assert not Path("data").exists()
    result = rmt(capsys, f"evaluate bytes --json --data {home / 'data' / 'book.txt-bytes'}")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == pytest.approx(expected)


@pytest.mark.parametrize("kind", [*KINDS, "tokenizer"])
def test_the_text_of_a_run_is_known_however_the_run_came_to_its_tokens(home, away, capsys, kind):
    """Trained on a folder prepared with options that the run's settings do not tell."""
    Path("book.txt").write_bytes((home / "book.txt").read_bytes())
    if kind == "tokenizer":
        trained().save("tokenizer.json")
    tokens = "--tokenizer tokenizer.json" if kind == "tokenizer" else f"--tokens {kind}"
    run(f"data prepare book.txt {tokens} --out prepared")
    options = "--batch 2 --task.segment_length 4" if kind in ("words", "tokenizer") else ""
    run(f"{TRAIN} {options} --data prepared --out run --quiet".replace("--data book.txt ", ""))
    expected = json.loads(Path("run", "result.json").read_text())["metrics"]
    shutil.rmtree("prepared")
    result = rmt(capsys, "evaluate run --json --data book.txt")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == pytest.approx(expected)


def test_a_text_is_not_called_another_because_of_one_of_its_name_prepared_here(home, away, capsys):
    Path("book.txt").write_text("another tale altogether\n" * 40)
    run("data prepare book.txt")
    result = rmt(capsys, f"evaluate bytes --json --data {home / 'book.txt'}")
    assert (result.code, result.err) == (0, "")
    shutil.copy(home / "book.txt", "book.txt")
    assert rmt(capsys, "evaluate bytes --json") == result


def test_data_that_are_nowhere_are_named_as_they_were_given(away, capsys):
    code, _, err = rmt(capsys, "evaluate bytes --data nowhere.txt")
    assert (code, err) == (
        2,
        "rmt: data='nowhere.txt' does not exist; say where the data of this run are now with --data PATH\n",
    )


def test_attention_goes_past_symbols_that_are_not_known(home, away, capsys):
    code, _, err = rmt(capsys, "attention characters --text élan -o page.html")
    assert code == 2
    assert "--unknown skip" in err
    assert rmt(capsys, "attention characters --text élan --unknown skip -o page.html").code == 0
    assert rmt(capsys, "attention characters --text it --data book.txt").code == 2
    assert rmt(capsys, "attention echo --unknown skip").code == 2


def test_another_corpus_is_named_for_what_it_is(home, away, capsys):
    Path("book.txt").write_text((home / "book.txt").read_text() + "and so on\n" * 8)
    code, out, err = rmt(capsys, "evaluate bytes --json")
    assert (code, out) == (2, "")
    assert "data='book.txt' is another corpus than the one this run was trained on" in err
    code, out, err = rmt(capsys, "evaluate bytes --json --unknown error")
    assert code == 0
    assert "not in the run's vocabulary (error): 0 of train, 0 of valid, 0 of test" in err
    assert json.loads(out)["tokens"] == 96 + 4


def test_another_text_is_measured_in_the_vocabulary_of_the_run(away, capsys):
    Path("other.txt").write_text("it was the wést of tides\n" * 40)
    code, _, err = rmt(capsys, "evaluate characters --data other.txt --json --batch 1")
    assert code == 2
    assert "is another corpus" in err
    code, _, err = rmt(capsys, "evaluate characters --data other.txt --json --batch 1 --unknown error")
    assert code == 2
    assert "has character 'é' (U+00E9, bytes c3 a9) at byte 12" in err
    code, out, err = rmt(capsys, "evaluate characters --data other.txt --json --batch 1 --unknown skip")
    assert code == 0
    assert "not in the run's vocabulary (skip): 36 of train, 2 of valid, 2 of test" in err
    assert json.loads(out)["tokens"] == 50 - 2 - 1


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_an_evaluation_goes_past_what_is_no_text(home, away, capsys, kind):
    text = (home / "book.txt").read_bytes()
    Path("other.txt").write_bytes(text[:-60] + b" \xff\0 " + text[-60:])
    options = "--json --batch 1 --data other.txt"
    code, _, err = rmt(capsys, f"evaluate {kind} {options} --unknown error")
    assert code == 2
    assert f"at byte {len(text) - 58}; go past it" in err
    code, _, err = rmt(capsys, f"evaluate {kind} {options} --unknown skip")
    assert code == 0
    assert ("2 of test" if kind == "characters" else "1 of valid") in err


def test_a_piece_of_a_split_is_looked_at(home, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(home)
    assert (
        rmt(capsys, f"attention characters --split valid --examples 2 -o {tmp_path / 'page.html'}").code == 0
    )
    assert rmt(capsys, "attention characters --segments 2").code == 2


def test_a_run_of_the_release_before_opens_where_its_text_is_and_says_so(tmp_path, monkeypatch, capsys):
    release = Path(__file__).parent.parent / "release" / "17fc2a8"
    for name in ("text-rmt", "tale.txt"):
        (shutil.copytree if (release / name).is_dir() else shutil.copy)(release / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    code, out, err = rmt(capsys, f"stream text-rmt tale.txt {STREAM}")
    assert code == 0, err
    assert "text-rmt has no tokenizer of its own (release 0.1.0 stored none): taken from tale.txt" in err
    Path("tale.txt").rename("other.txt")
    assert rmt(capsys, f"stream text-rmt other.txt {STREAM}").code == 0  # what was prepared is there
    shutil.rmtree("data")
    code, _, gone = rmt(capsys, f"stream text-rmt other.txt {STREAM}")
    assert (code, gone.count("\n")) == (2, 1)
    assert "its data, 'tale.txt', are not there or have changed; put back the very data" in gone
    monkeypatch.chdir(release)
    assert (
        json.loads(rmt(capsys, f"stream text-rmt tale.txt {STREAM}").out)["perplexity"]
        == json.loads(out)["perplexity"]
    )
