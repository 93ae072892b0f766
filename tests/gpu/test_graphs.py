"""Recording work as a CUDA graph: when it is done, and that it changes nothing."""

from __future__ import annotations

import gc
from string import ascii_lowercase
from typing import Any

import pytest
import torch
from torch import Tensor

from rmt.gpu import graphs
from rmt.gpu.graphs import MAX_RECORDINGS, MAX_REMEMBERED, Recorder, sent, uncollected


class Recording:
    """Stands in for a CUDA graph: refuses inputs of another shape, as a graph's memory does."""

    def __init__(self, work: Any, pool: Any, kind: object, *inputs: Tensor):
        self.work, self.kind, self.shapes = work, kind, [tensor.shape for tensor in inputs]
        self.graph = self
        self.before = pool

    def pool(self) -> str:
        return "shared"

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        assert [tensor.shape for tensor in inputs] == self.shapes
        return ("replayed", self.kind, *inputs)  # type: ignore[return-value]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(graphs, "Captured", Recording)
    return Recorder(lambda kind, *inputs: ("worked", kind, *inputs), enabled=True)


def how(recorder: Recorder, kind: str, *shape: int) -> str:
    return str(recorder(kind, torch.zeros(shape))[0])


def hows(recorder: Recorder, kinds: str) -> str:
    """`w` for each call that worked, `r` for each that was replayed."""
    return "".join(how(recorder, kind, 2, 3)[0] for kind in kinds)


def test_the_second_call_of_a_kind_is_recorded(recorder: Recorder) -> None:
    assert hows(recorder, "aaa") == "wrr"


def test_kinds_that_take_turns_are_recorded(recorder: Recorder) -> None:
    assert hows(recorder, "abcabcabc") == "wwwrrrrrr"


def test_a_kind_that_comes_once_is_never_recorded(recorder: Recorder) -> None:
    hows(recorder, "abcdefghijklmnop")
    assert not recorder.recordings


def test_another_kind_is_not_taken_for_the_recorded_one(recorder: Recorder) -> None:
    assert [how(recorder, kind, 2, 3) for kind in "aabb"] == ["worked", "replayed", "worked", "replayed"]


def test_another_shape_of_the_same_kind_is_not_taken_for_the_recorded_one(recorder: Recorder) -> None:
    calls = [how(recorder, "a", 2, tokens) for tokens in (6, 6, 8, 8, 6)]
    assert calls == ["worked", "replayed", "worked", "replayed", "replayed"]


def test_the_last_few_recordings_are_kept(recorder: Recorder) -> None:
    for tokens in range(MAX_RECORDINGS + 1):
        assert [how(recorder, "a", tokens) for _ in range(2)] == ["worked", "replayed"]
    assert how(recorder, "a", 1) == "replayed"
    assert how(recorder, "a", 0) == "worked"


def test_the_recording_that_was_replayed_longest_ago_makes_room(recorder: Recorder) -> None:
    kinds = ascii_lowercase[:MAX_RECORDINGS]
    hows(recorder, kinds + kinds + kinds[0])
    assert hows(recorder, "zz" + kinds[0] + kinds[1]) == "wrrw"
    assert len(recorder.recordings) == MAX_RECORDINGS


def test_more_kinds_than_are_kept_do_not_drive_each_other_out(recorder: Recorder) -> None:
    kinds = ascii_lowercase[: MAX_RECORDINGS + 2]
    assert hows(recorder, kinds) == "w" * len(kinds)
    for _ in range(3):
        assert hows(recorder, kinds) == "r" * MAX_RECORDINGS + "ww"


def test_what_came_long_ago_is_not_remembered(recorder: Recorder) -> None:
    hows(recorder, "a")
    for tokens in range(MAX_REMEMBERED):
        how(recorder, "b", tokens)
    assert len(recorder.last_came) == MAX_REMEMBERED
    assert hows(recorder, "a") == "w"


def test_recordings_share_their_memory(recorder: Recorder) -> None:
    for kind in "aabb":
        how(recorder, kind, 2, 3)
    assert [recording.before for recording in recorder.recordings.values()] == [None, "shared"]


def test_nothing_is_collected_while_a_recording_is_made() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"), uncollected():
        raise ValueError("broken")
    assert gc.isenabled()


def test_what_was_forgotten_is_not_replayed(recorder: Recorder) -> None:
    assert [how(recorder, "a", 2, 3) for _ in range(2)] == ["worked", "replayed"]
    recorder.forget()
    assert [how(recorder, "a", 2, 3) for _ in range(2)] == ["worked", "replayed"]


def test_another_precision_is_another_call(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    how(recorder, "a", 2, 3)
    assert recorder("a", torch.zeros((2, 3), dtype=torch.float16))[0] == "worked"
    monkeypatch.setattr(graphs, "autocast_state", lambda: (True, torch.bfloat16))
    assert recorder("a", torch.zeros((2, 3), dtype=torch.float16))[0] == "worked"
    assert recorder("a", torch.zeros((2, 3), dtype=torch.float16))[0] == "replayed"


def test_a_recorder_that_is_off_always_works() -> None:
    recorder = Recorder(lambda kind, *inputs: ("worked", kind, *inputs), enabled=False)
    assert [how(recorder, "a", 2, 3) for _ in range(3)] == ["worked"] * 3


def test_a_tensor_that_is_sent_stays_where_it_is_on_a_cpu() -> None:
    tensor = torch.arange(6).view(2, 3)
    assert sent(tensor, torch.device("cpu")) is tensor
    turned = sent(tensor.mT, torch.device("cpu"))
    assert turned.is_contiguous()
    assert torch.equal(turned, tensor.mT)


def test_what_is_on_the_host_is_sent_before_work_and_by_a_recording_itself(monkeypatch) -> None:
    monkeypatch.setattr(graphs, "Captured", Recording)
    places: list[Any] = []
    monkeypatch.setattr(graphs, "sent", lambda tensor, device: places.append(device) or tensor)
    recorder = Recorder(lambda kind, *inputs: ("worked", *inputs), enabled=True, device=torch.device("meta"))
    assert hows(recorder, "aaa") == "wrr"
    assert recorder.run("a", torch.zeros(2, 3))[0] == "worked"
    assert places == [torch.device("meta")] * 3  # run as it is, recorded, run as it is; not replayed
