"""`rmt export` writes a program, its description and the initial state, or says in a line why not."""

import json

import pytest
import torch

from rmt.cli.main import main


@pytest.mark.filterwarnings("ignore")
def test_a_wrapped_model_is_exported_from_its_folder(tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    import rmt.hf

    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.LlamaConfig(**sizes, intermediate_size=24, num_key_value_heads=1)
    model = rmt.hf.add_memory(transformers.LlamaForCausalLM(config), memory=2, segment_length=6)
    model.save_pretrained(tmp_path / "model")
    out = tmp_path / "segment.pt2"
    assert main(["export", str(tmp_path / "model"), "-o", str(out), "--batch", "2"]) == 0
    description = json.loads(out.with_suffix(".json").read_text())
    assert description["inputs"]["tokens"] == {"shape": [2, 6], "type": "int64"}
    assert description["outputs"]["logits"] == {"shape": [2, 6, 20], "type": "float32"}
    program = torch.export.load(out).module()
    assert program is not None
    assert "segment.safetensors" in capsys.readouterr().out


def test_a_folder_that_is_neither_run_nor_model_is_one_line(tmp_path, capsys):
    assert main(["export", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.filterwarnings("ignore")
def test_an_encoder_is_refused_as_what_cannot_be_exported(tmp_path, capsys):
    pytest.importorskip("transformers")
    import rmt.hf
    from tests.hf.zoo import plain

    model = rmt.hf.add_memory(plain("bert", "ForSequenceClassification"), memory=2, segment_length=6)
    model.save_pretrained(tmp_path / "model")
    capsys.readouterr()
    assert main(["export", str(tmp_path / "model"), "-o", str(tmp_path / "x.pt2")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("rmt: model=")
    assert "/model' is of type 'rmt_bert': only decoders with memory, and runs of rmt train" in err
    assert err.count("\n") == 1
