"""`rmt attention` writes a page, prints the heads, and refuses what cannot be meant."""

import pytest

from rmt.cli import attention
from rmt.cli.main import main
from tests.analysis.pages import data_of
from tests.cli.command import TRAIN, rmt


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """A run whose name is no markup."""
    folder = tmp_path_factory.mktemp("trained") / "<b>run&amp;"
    assert main([*f"{TRAIN} --quiet --out".split(), str(folder)]) == 0
    return folder


def test_the_page_is_written_where_asked_with_as_many_examples(capsys, run, tmp_path):
    assert main(["attention", str(run), "-o", "page.html", "--examples", "3", "--example", "2"]) == 0
    data = data_of((tmp_path / "page.html").read_text())
    assert [example["name"] for example in data["examples"]] == [f"test example {n}" for n in (2, 3, 4)]
    assert data["title"] == "<b>run&amp;"
    assert "rmt" in data["facts"]
    *table, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table] == ["operation", "write", "read", "rewrite", "mix"]
    assert last.startswith("explorer: page.html (")


def test_the_page_goes_into_the_run_unless_a_place_is_named(capsys, run):
    assert main(["attention", str(run), "--quiet"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    page = (run / "explorer.html").read_text(encoding="utf-8")
    assert "<b>run" not in page
    assert len(data_of(page)["examples"]) == 4


def test_a_text_takes_the_place_of_examples(capsys, run, tmp_path):
    assert main(["attention", str(run), "-o", "page.html", "--text", "3 1 4 1 | 5 9"]) == 0
    (example,) = data_of((tmp_path / "page.html").read_text())["examples"]
    assert [segment["tokens"] for segment in example["segments"]] == [["3", "1", "4"], ["1", "|", "5"], ["9"]]
    assert not any(one for segment in example["segments"] for one in segment["wanted"])


def test_a_byte_of_a_text_file_that_is_not_utf_8_is_not_left_out(capsys, run, tmp_path):
    (tmp_path / "latin1.txt").write_bytes(b"3 1 \xe9 4")
    assert main(["attention", str(run), "--text", "latin1.txt"]) == 2
    assert "at byte 4 of the text is not in the model's vocabulary" in capsys.readouterr().err


def test_the_end_of_a_long_text_file_is_not_cut_within_a_character(monkeypatch, tmp_path):
    monkeypatch.setattr(attention, "MOST_TEXT", 4)
    (tmp_path / "long.txt").write_text("abcé", encoding="utf-8")
    assert attention.text_of("long.txt") == "abc"


def test_other_segments_than_in_training(run, tmp_path):
    assert main(["attention", str(run), "-o", "page.html", "--segments", "9", "--split", "valid"]) == 0
    example, *_ = data_of((tmp_path / "page.html").read_text())["examples"]
    assert example["name"] == "valid example 1"
    assert [len(segment["tokens"]) for segment in example["segments"]] == [1] * 9


def test_serving_opens_the_page_at_its_address(capsys, run, monkeypatch):
    opened = []
    monkeypatch.setattr(attention.webbrowser, "open", opened.append)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupted)
    assert main(["attention", str(run), "--serve", "--quiet"]) == 0
    assert opened[0].startswith("http://127.0.0.1:")
    assert f"open at {opened[0]} (Ctrl-C ends)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--text", "3 x 4"], "token 'x' at byte 2"),
        (["--text", "3", "--examples", "2"], "text takes the place of examples"),
        (["--example", "13"], "must be 1 to 12"),
        (["--segments", "7"], "nearest: 5, 9"),
        (["-o", "missing/page.html"], "missing/page.html"),
        (["-o", "page.png"], "out='page.png' must end in .html: it is a page"),
        (["--serve", "--port", "70000"], "port=70000 must be 0 to 65535"),
    ],
    ids=["token", "text-and-examples", "example", "segments", "place", "ending", "port"],
)
def test_a_mistake_about_a_run_is_one_line(capsys, run, options, said):
    assert main(["attention", str(run), *options]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_the_run_has_to_be_one(capsys):
    assert "run 'nothing' does not exist" in rmt(capsys, "attention nothing").err


def test_a_text_may_be_the_name_of_a_file(capsys, run, tmp_path):
    (tmp_path / "tokens.txt").write_text("3 1 4 1 | 5 9\n")
    assert main(["attention", str(run), "-o", "page.html", "--text", "tokens.txt"]) == 0
    (example,) = data_of((tmp_path / "page.html").read_text())["examples"]
    assert [segment["tokens"] for segment in example["segments"]] == [["3", "1", "4"], ["1", "|", "5"], ["9"]]


def test_a_run_of_text_has_a_page_of_its_examples_and_of_a_file(capsys, tmp_path):
    (tmp_path / "book.txt").write_text("so it goes on and on, " * 120)
    sizes = "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8"
    words = f"train text --data book.txt --task.segment_length 8 --memory 2 --steps 2 --batch 2 {sizes}"
    assert rmt(capsys, f"{words} --device cpu --out text --quiet").code == 0
    (tmp_path / "letter.txt").write_text("it goes on")
    for asked, tokens in (("", None), ("--text letter.txt", list("it goes on"))):
        assert rmt(capsys, f"attention text -o page.html --quiet {asked}").code == 0
        example, *_ = data_of((tmp_path / "page.html").read_text())["examples"]
        shown = [word for segment in example["segments"] for word in segment["tokens"]]
        assert tokens is None or [word.replace("␣", " ") for word in shown] == tokens
