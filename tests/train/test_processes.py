"""Who a process is, by what torchrun or srun says, and what it says to the others."""

import os
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn

from rmt.cli.main import program
from rmt.errors import ConfigError
from rmt.tasks.segments import Segment
from rmt.train import processes
from rmt.train.processes import Processes, first_machine, is_first, launch, local_rank, port_of, world_size
from tests.train.processes import in_two_processes

VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
SLURM = {
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_NODELIST": "gpu[07-09]",
    "SLURM_STEP_NODELIST": "gpu[08-09]",
    "SLURM_JOB_ID": "123456",
}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in (*VARIABLES, *SLURM):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def joined(monkeypatch):
    """Fills with what the process group is entered with."""
    groups = []
    monkeypatch.setattr(
        dist, "init_process_group", lambda backend, **options: groups.append((backend, options))
    )
    monkeypatch.setattr(processes.atexit, "register", lambda function: None)
    return groups


def set_variables(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_a_process_without_a_launcher_is_alone(joined):
    single = launch("cpu", "32-true", batch=3, accumulate=1)
    assert (single.world_size, single.global_rank, single.device) == (1, 0, torch.device("cpu"))
    assert is_first()
    assert joined == []


def test_inside_a_slurm_allocation_a_process_that_srun_did_not_start_is_alone(monkeypatch, joined):
    set_variables(monkeypatch, {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7", "SLURM_PROCID": "0"})
    assert launch("cpu", "32-true", batch=3, accumulate=1).world_size == 1
    assert joined == []


def test_torchrun_says_who_a_process_is(monkeypatch, joined):
    said = {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    set_variables(monkeypatch, {**SLURM, **said})
    member = launch("cpu", "32-true", batch=4, accumulate=1)
    assert (member.world_size, member.global_rank, local_rank(), is_first()) == (4, 2, 0, False)
    ((backend, options),) = joined
    assert backend == "gloo"
    assert (options["rank"], options["world_size"]) == (2, 4)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("a", "1")


def test_srun_says_who_a_process_is_and_where_the_first_one_listens(monkeypatch, joined):
    set_variables(monkeypatch, SLURM)
    member = launch("cpu", "32-true", batch=4, accumulate=1)
    assert (member.world_size, member.global_rank, local_rank(), is_first()) == (4, 3, 1, False)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("gpu08", "18456")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name)  # not set by monkeypatch, so that it would stay


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("host5", "host5"),
        ("host5,host6", "host5"),
        ("host5 host6", "host5"),
        ("host[5-9]", "host5"),
        ("gpu-a[007,009-012],gpu-b[1-2]", "gpu-a007"),
        ("host[5]", "host5"),
    ],
)
def test_the_first_process_is_on_the_first_machine(nodes, first):
    assert first_machine(nodes) == first


@pytest.mark.parametrize(("job", "port"), [("", 12910), ("7", 15007), ("123456", 18456)])
def test_each_job_has_its_port(job, port):
    assert port_of(job) == port


def test_a_process_without_a_gpu_of_its_own_is_refused(monkeypatch):
    set_variables(monkeypatch, {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2"})
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(
        ConfigError, match="process 2 of this machine has no GPU of its own: it sees 2; start no"
    ):
        launch("cuda", "32-true", batch=4, accumulate=1)


@pytest.mark.parametrize(
    ("precision", "weights", "products"),
    [
        ("32-true", torch.float32, torch.float32),
        ("64-true", torch.float64, torch.float64),
        ("bf16-mixed", torch.float32, torch.bfloat16),
    ],
)
def test_a_precision_is_of_weights_and_of_products(precision, weights, products):
    single = Processes(torch.device("cpu"), precision)
    module = single.setup_module(nn.Linear(2, 2))
    assert module.weight.dtype == weights
    with single.autocast():
        assert module(torch.ones(1, 2, dtype=weights)).dtype == products
    assert isinstance(single.autocast(), nullcontext) == (weights == products)


def test_a_segment_goes_to_the_device_and_keeps_its_form():
    segment = Segment(torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    sent = Processes(torch.device("meta"), "32-true").to_device(segment)
    assert type(sent) is Segment
    assert sent.tokens.is_meta
    assert sent.reset is None


def test_messages_reach_the_other_process():
    in_two_processes(messages)


def messages() -> None:
    member = launch("cpu", "32-true", batch=2, accumulate=1)
    assert member.world_size == world_size() == 2
    mine = torch.tensor([1.0, member.global_rank])
    assert member.all_reduce(mine).tolist() == [2.0, 1.0]
    assert member.broadcast({"rank": member.global_rank}) == {"rank": 0}
    member.barrier()


@pytest.mark.parametrize(("count", "code"), [("1", 3), ("2", "by itself with 3")])
def test_one_process_of_many_ends_by_itself(monkeypatch, count, code):
    """Where Python ends first, threads that a sharded run's group still has may abort the process."""

    def end(number: int) -> None:
        raise SystemExit(f"by itself with {number}")

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr("rmt.cli.main.main", lambda: 3)
    monkeypatch.setenv("WORLD_SIZE", count)
    with pytest.raises(SystemExit) as exit_reason:
        program()
    assert exit_reason.value.code == code


def test_alone_every_message_is_its_own_answer():
    single, mine, numbers = Processes(torch.device("cpu"), "32-true"), torch.ones(2), {"loss": 1.0}
    assert single.all_reduce(mine) is mine
    assert single.broadcast(numbers) is numbers
    single.barrier()
