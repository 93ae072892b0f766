"""`rmt finetune --task lm` where several processes run."""

from tests.cli.command import rmt


def test_several_processes_are_refused_before_anything_is_loaded(capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    code, out, err = rmt(capsys, "finetune novel.txt --task lm --backbone bert")
    assert (code, out) == (2, "")
    assert err == "rmt: task='lm' is trained by one process, not by 2; leave torchrun or srun out\n"
