"""Commands that use a run compute with as many threads as it was trained with."""

import pytest
import torch

from tests.cli.book import TRAIN, write_book
from tests.cli.command import rmt


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    yield lambda: torch.set_num_threads(2)
    torch.set_num_threads(before)


@pytest.mark.parametrize(("threads", "then"), [(1, 1), (0, 2)])
def test_a_run_is_used_with_the_threads_it_was_trained_with(
    capsys, tmp_path, monkeypatch, two_threads, threads, then
):
    monkeypatch.chdir(tmp_path)
    write_book()
    assert rmt(capsys, f"{TRAIN} --out run --threads {threads} --quiet").code == 0
    for command in ("evaluate run", "stream run book.txt", "generate run --prompt the --tokens 2"):
        two_threads()
        assert rmt(capsys, command).code == 0
        assert torch.get_num_threads() == then, command
