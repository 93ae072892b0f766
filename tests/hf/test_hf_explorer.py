"""`rmt attention` on a pretrained model with memory."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from rmt.analysis.capture import capture
from rmt.hf import AttentionView, add_memory, unlimited
from tests.analysis.pages import Visit, chromium, data_of
from tests.cli.command import rmt
from tests.hf.tokens import WORDS, tokenizer

TEXT = "the film was very good and the end was fine"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(WORDS), n_positions=32, n_embd=8, n_layer=2, n_head=2)
    model = add_memory(GPT2LMHeadModel(config), memory=2, segment_length=4)
    model.save_pretrained("wrapped", tokenizer=tokenizer(template="$A"))
    (tmp_path / "letter.txt").write_text(f"{TEXT}\n")
    return tmp_path


def test_a_wrapped_model_shows_what_it_captured_on_a_text_file(capsys, folder):
    code, out, err = rmt(capsys, "attention wrapped --text letter.txt -o page.html")
    assert (code, err) == (0, "")
    assert "explorer: page.html" in out
    data = data_of((folder / "page.html").read_text())
    (example,) = data["examples"]
    words = [word for segment in example["segments"] for word in segment["tokens"]]
    assert words == TEXT.split()
    targets = [word for segment in example["segments"] for word in segment["targets"]]
    assert targets[:-1] == words[1:]
    assert "RMTGPT2LMHeadModel" in data["facts"]
    from rmt.hf.models import RMTGPT2LMHeadModel

    view = AttentionView(RMTGPT2LMHeadModel.from_pretrained("wrapped").eval())
    ids = torch.tensor([WORDS.index(word) for word in TEXT.split()])
    captured = capture(view, ids)
    assert [segment["spans"] for segment in example["segments"]] == [list(part.spans) for part in captured]
    predicted = [WORDS[token] for part in captured for token in part.predicted.tolist()]
    assert [word for segment in example["segments"] for word in segment["predicted"]] == predicted


def test_a_model_needs_a_text_and_memory(capsys, folder):
    GPT2LMHeadModel(GPT2Config(vocab_size=4, n_embd=4, n_layer=1, n_head=1)).save_pretrained("plain")
    expected = {
        "attention wrapped": "'wrapped' is a pretrained model without examples; give --text TEXT or FILE",
        "attention wrapped --text good --segments 2": "segments=2 has no effect on a pretrained model",
        "attention plain --text good": "'plain' holds a GPT2LMHeadModel without memory",
    }
    (folder / "latin1.txt").write_bytes("café".encode("latin1"))
    expected["attention wrapped --text latin1.txt"] = (
        "text has byte 233, which is not UTF-8; convert it first"
    )
    for command, message in expected.items():
        code, out, err = rmt(capsys, command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"architectures": 3}', b'{"architectures": ["RMTNone"], "rmt": [1]}'],
)
def test_a_damaged_config_of_a_model_is_one_line(capsys, folder, content):
    (folder / "wrapped" / "config.json").write_bytes(content)
    code, out, err = rmt(capsys, "attention wrapped --text good")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'wrapped" in err


def test_a_damaged_template_of_a_tokenizer_is_one_line(capfd, folder):
    unlimited(tokenizer()).save_pretrained(folder / "wrapped")
    file = folder / "wrapped" / "tokenizer.json"
    file.write_text(file.read_text().replace('"[SEP]": {', '"[XYZ]": {'))
    code, out, err = rmt(capfd, "attention wrapped --text good")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "folder='wrapped' cannot be loaded (its template in tokenizer.json has '[SEP]', which" in err


def test_the_page_of_a_wrapped_model_works_and_fits_a_phone(capsys, folder):
    assert rmt(capsys, "attention wrapped --text letter.txt -o page.html --quiet").code == 0
    with chromium() as browser:
        settings = {"viewport": {"width": 400, "height": 900}}
        visit = Visit(browser, (folder / "page.html").read_text(), folder, **settings)
        page = visit.page
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        table, frame = (page.locator(name) for name in ("#scores", ".operations .scroll"))
        assert table.evaluate("node => node.scrollWidth") <= frame.evaluate("node => node.clientWidth")
        assert "over segment 1 of 3 of your text alone" in visit.text("#scores-hint")
        assert visit.complaints == []
        visit.close()
