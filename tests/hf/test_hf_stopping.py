"""A signal lets fine-tuning save behind the step and stop; the same command goes on there."""

import signal
from pathlib import Path
from typing import Any

from rmt.documents import trainer
from tests.cli.command import rmt
from tests.hf.test_hf_finetune import TINY, backbone, documents, empty_folder, write

__all__ = ["empty_folder"]  # a fixture of every test here


def test_fine_tuning_saves_behind_the_step_in_which_a_signal_came(capsys, monkeypatch):
    class Signalling(trainer.LogCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.global_step == 5:
                signal.raise_signal(signal.SIGTERM)

    command = (
        f"finetune {write('data.jsonl', documents())} --backbone {backbone()} {TINY} --epochs 3 --out run"
    )
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "LogCallback", Signalling)
        code, _, err = rmt(capsys, command)
    assert code == 128 + signal.SIGTERM
    assert err == "rmt: stopped by SIGTERM; step 6 is saved in run/checkpoints; the same command goes on\n"
    assert Path("run/checkpoints/step_6").is_dir()
    assert not Path("run/result.json").exists()
    assert signal.getsignal(signal.SIGTERM) is before
    code, out, _ = rmt(capsys, command)
    assert code == 0
    assert "going on from step 6" in out
