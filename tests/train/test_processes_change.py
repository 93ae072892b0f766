"""A run goes on among more or fewer processes than before, replicated or sharded."""

import contextlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rmt.config import from_dict, to_dict
from rmt.errors import CheckpointError
from rmt.train.config import RunConfig
from rmt.train.loop import Loop
from rmt.train.processes import Processes, is_first
from rmt.train.snapshots import require_same_step
from rmt.yamlfile import write_yaml
from tests.train.processes import TEXT, in_processes
from tests.train.runs import Unplugged, Watcher

STEPS = 6
RUN = {**TEXT, "device": "cpu", "precision": "64-true"}
# processes and strategy until step 3, from there to step 5, and to the end
CHANGES = {
    "ddp-1-2": ((1, "ddp"), (2, "ddp")),
    "ddp-2-1": ((2, "ddp"), (1, "ddp")),
    "ddp-1-fsdp-2": ((1, "ddp"), (2, "fsdp")),
}
SLOW_CHANGES = {
    "ddp-2-4-1": ((2, "ddp"), (4, "ddp"), (1, "ddp")),
    "fsdp-2-4-ddp-1": ((2, "fsdp"), (4, "fsdp"), (1, "ddp")),
    "fsdp-4-2": ((4, "fsdp"), (2, "fsdp")),
}
EVERY_CHANGE = [
    *(pytest.param(parts, id=name) for name, parts in CHANGES.items()),
    *(pytest.param(parts, id=name, marks=pytest.mark.slow) for name, parts in SLOW_CHANGES.items()),
]


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    letters = torch.randint(97, 117, (1000,), generator=torch.Generator().manual_seed(0))
    Path("book.txt").write_bytes(bytes(letters.tolist()))


def config_of(strategy: str = "ddp", **model: float) -> RunConfig:
    return from_dict(RunConfig, {**RUN, "model": {**RUN["model"], **model}, "strategy": strategy})


def run_until(config: RunConfig, folder: Path, stop: int | None) -> None:
    watcher = Watcher(stop)
    with contextlib.suppress(Unplugged):
        Loop(config, folder, watcher).run()
    if is_first():
        (folder / "notes").write_text("\n".join(watcher.messages))


def train_in_parts(
    folder: str, parts: tuple[tuple[int, str], ...], **model: float
) -> dict[str, torch.Tensor]:
    """The last checkpoint's model, optimizer and state, of a run that `parts` of processes shared."""
    Path(folder).mkdir()
    Path(folder, "config.yaml").write_text(write_yaml(to_dict(config_of(**model))))
    stops = [3, 5][: len(parts) - 1]
    for (count, strategy), stop in zip(parts, [*stops, None], strict=True):
        in_processes(count, run_until, config_of(strategy, **model), Path(folder), stop)
    checkpoint = Path(folder, "checkpoints", f"step_{STEPS}")
    files = [load_file(checkpoint / f"{part}.safetensors") for part in ("model", "optimizer", "state")]
    return {name: tensor for tensors in files for name, tensor in tensors.items()}


@pytest.mark.parametrize("parts", EVERY_CHANGE)
def test_a_run_that_changes_its_processes_computes_what_it_would_have(parts):
    """To rounding: gradients are added up in another order."""
    changed, alone = train_in_parts("changed", parts), train_in_parts("alone", ((1, "ddp"),))
    for tensors in (changed, alone):
        del tensors["rng"]  # nothing is dropped, so nothing is drawn
    assert changed.keys() == alone.keys()
    for name, tensor in alone.items():
        torch.testing.assert_close(changed[name], tensor, rtol=1e-8, atol=1e-10, msg=name)


def test_a_run_that_changes_its_processes_says_so():
    train_in_parts("changed", ((2, "ddp"), (1, "ddp")))
    notes = Path("changed", "notes").read_text()
    assert "resuming at step 2 among 1 processes instead of 2: sums and dropout differ from here on" in notes


def test_processes_that_join_drop_out_by_masks_of_their_own():
    """No two have the same random numbers, nor those that another had before."""
    changed = train_in_parts("changed", ((2, "ddp"), (4, "ddp")), dropout=0.2)
    assert len(changed["rng"].unique(dim=0)) == 4


def test_processes_that_see_different_checkpoints_do_not_go_on():
    in_processes(2, refuse_another_step)


def refuse_another_step() -> None:
    from rmt.train.checkpoint import Snapshot
    from rmt.train.processes import launch

    processes: Processes = launch("cpu", "32-true", batch=2, accumulate=1)
    saved = Snapshot({}, {}, {}, {"step": 4 - 2 * processes.global_rank})
    if is_first():
        require_same_step(processes, saved)
        return
    with pytest.raises(CheckpointError, match="process 1 finds checkpoint 2 and the first process 4; all"):
        require_same_step(processes, saved)
