"""An update learns from as many documents as `--batch` says, however many are in memory at a time."""

from collections import Counter

import pytest

from rmt.documents import trainer
from rmt.documents.job import FinetuneJob
from rmt.errors import CheckpointError
from tests.documents.tiny import FinetuneWatcher, tiny_finetune, write_backbone, write_documents
from tests.train.runs import Unplugged


@pytest.fixture
def folder(tmp_path):
    write_backbone(tmp_path)
    write_documents(tmp_path / "documents.jsonl", 50)
    return tmp_path


@pytest.mark.parametrize(("batch", "at_once"), [(6, 4), (9, 8), (7, 4), (4, 8)])
def test_every_update_but_an_epochs_last_is_of_the_whole_batch(folder, monkeypatch, batch, at_once):
    documents: Counter[int] = Counter()
    real_step = trainer.DocumentTraining.training_step

    def training_step(self, model, inputs, *rest):
        documents[self.state.global_step] += len(inputs["input_ids"])
        return real_step(self, model, inputs, *rest)

    monkeypatch.setattr(trainer.DocumentTraining, "training_step", training_step)
    tiny_finetune(folder, "run", batch=batch, at_once=at_once, epochs=1)
    *updates, last = documents.values()
    assert set(updates) == {batch}
    assert 0 < last <= batch


def test_a_run_whose_updates_were_larger_does_not_go_on_unnoticed(folder, monkeypatch):
    """Earlier releases made updates of 8 documents of a batch of 6 where 4 were in memory at a time."""
    with monkeypatch.context() as earlier:
        earlier.setattr(FinetuneJob, "at_once", 4)
        earlier.setattr(FinetuneJob, "parts", 2)
        with pytest.raises(Unplugged):
            tiny_finetune(folder, "run", FinetuneWatcher(stop=6), batch=6, at_once=4)
    with pytest.raises(CheckpointError, match=r"updates of 8 documents, not of batch=6; .* --restart"):
        tiny_finetune(folder, "run", batch=6, at_once=4)
