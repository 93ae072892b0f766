"""A worker waits for a run folder that another still holds, but not for ever."""

import pytest

from rmt.experiments.holding import patiently
from rmt.train.folder import FolderInUse, locked


def test_a_worker_waits_for_one_that_still_saves(tmp_path):
    tries = []

    def action() -> None:
        tries.append(1)
        if len(tries) < 3:
            with locked(tmp_path), locked(tmp_path):
                pass

    patiently(action, seconds=60)
    assert len(tries) == 3


def test_a_worker_does_not_wait_for_ever(tmp_path):
    with locked(tmp_path), pytest.raises(FolderInUse, match="is being trained by another process"):
        patiently(lambda: locked(tmp_path).__enter__(), seconds=0)
