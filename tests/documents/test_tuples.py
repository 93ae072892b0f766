"""Backbones whose configuration asks for tuples: the package's own calls ask for outputs with names."""

import json

import pytest

from tests.cli.command import rmt
from tests.documents.tiny import tiny_finetune, write_backbone, write_documents


@pytest.mark.parametrize("settings", [{}, {"memory": 0, "answer": "mean"}], ids=["memory", "mean"])
def test_a_backbone_that_answers_in_tuples_learns_and_predicts(capsys, tmp_path, settings):
    config = write_backbone(tmp_path) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "return_dict": False}))
    write_documents(tmp_path / "documents.jsonl")
    result = tiny_finetune(tmp_path, "run", epochs=1, **settings)
    assert 0 <= result["value"] <= 1
    words = f"predict {tmp_path / 'run'} {tmp_path / 'documents.jsonl'} --device cpu --segments"
    code, out, err = rmt(capsys, words)
    assert (code, err) == (0, "")
    labels = [line.split("\t")[1] for line in out.splitlines() if line.startswith(str(tmp_path))]
    assert len(labels) == 24
    assert {*labels} <= {"good", "bad"}
