"""Launchers: workers elsewhere leave the same folders and the same results as processes of this machine."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread, get_ident
from types import SimpleNamespace

import pytest

import rmt
from rmt.errors import ConfigError
from rmt.experiments import launchers
from rmt.experiments.cells import STRETCHES, WALL_SECONDS, PlannedCell, record_of, write_cell
from rmt.experiments.launchers import (
    LocalLauncher,
    RayLauncher,
    filled,
    launcher_of,
    split_template,
    worker_command,
)
from rmt.experiments.reproduce import Limits, reproduce
from rmt.stopping import PARENT, REQUEST, SIGNALS, handling_signals
from tests.experiments.forked import ForkedJob
from tests.experiments.tiny import echo_cell

# A queue of one machine: sbatch keeps the script, which is moved a moment later, and starts it as job 7; srun
# runs its last words.
SBATCH = """#!/bin/sh
script=$(cat "$1")
export SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=1 SLURM_NODEID=0 SLURM_PROCID=0
export SLURM_LOCALID=0 SLURM_JOB_NODELIST=localhost
echo "Submitted batch job 7"
sh -c "$script" > /dev/null 2>&1 < /dev/null &
"""
SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do [ "$1" = --output ] || [ "$1" = --error ] && shift; shift; done
exec "$@"
"""
SACCT = "#!/bin/sh\necho 'JobID|State|NodeList'\necho '7|RUNNING|localhost'\n"


@pytest.fixture(autouse=True)
def _tasks_of_the_tests(monkeypatch):
    places = (Path(rmt.__file__).parents[1], Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Slurm's commands on the PATH, and nothing of a Slurm that may be around this test."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT}.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def trained(launcher: str, folder: Path, *cells: PlannedCell) -> list[dict]:
    """What comes of cells by a launcher, without what depends on the clock and on the source's state."""
    heard = []
    records = reproduce(
        cells, folder, launcher_of(launcher, folder), Limits(2), lambda *end: heard.append(end)
    )
    assert len(records) == len(cells), heard
    for record in records:
        for name in (WALL_SECONDS, STRETCHES):
            record.pop(name)
        for run in record["runs"]:
            for name in ("seconds", "commit", "source"):
                run.pop(name)
    return records


def test_a_template_has_the_worker_as_words_or_quoted_in_a_word():
    command = ["python", "-m", "worker", "a b.yaml"]
    assert filled(split_template("nice {}"), command) == ["nice", *command]
    assert filled(split_template("ssh node 'cd x && {}'"), command) == [
        "ssh",
        "node",
        "cd x && python -m worker 'a b.yaml'",
    ]


def test_a_template_gives_the_results_of_processes(tmp_path, monkeypatch):
    cell = echo_cell("first")
    records = trained("env LAUNCHED=yes {}", tmp_path / "a", cell)
    monkeypatch.setattr(launchers, "ProcessJob", ForkedJob)
    assert records == trained("local", tmp_path / "b", cell)


@pytest.mark.parametrize(("launcher", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_a_launcher_without_its_package_names_the_extra(tmp_path, monkeypatch, launcher, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"launcher={launcher} needs {package}: pip install"):
        launcher_of(launcher, tmp_path)


def test_slurm_runs_the_script_that_requeues_and_signals_and_gives_the_same_results(tmp_path, slurm):
    pytest.importorskip("submitit", reason="submitit is not installed")
    cell = echo_cell("first")
    records = trained("slurm", tmp_path / "slurm", cell)
    assert records == trained("local", tmp_path / "local", cell)
    lines = (tmp_path / "slurm/slurm/7_submission.sh").read_text().splitlines()
    assert "#SBATCH --requeue" in lines
    assert "#SBATCH --signal=USR2@120" in lines
    assert "accuracy" in (tmp_path / "slurm/first.log").read_text()


def test_a_slurm_job_that_has_to_go_saves_and_is_queued_again(tmp_path):
    pytest.importorskip("submitit", reason="submitit is not installed")
    from rmt.experiments.launchers import QueuedWork

    cell = echo_cell("first", {"train": {"steps": 10**6, "save_every": 10**6, "evaluate_every": 10**6}})
    file = write_cell(cell, tmp_path)
    work, queued = QueuedWork(str(file), worker_command(file), {}), []
    metrics = tmp_path / "first/seed-0/metrics.jsonl"

    def preempt() -> None:
        while not metrics.exists() or metrics.read_text().count("\n") < 3:
            time.sleep(0.01)
        queued.append(work.checkpoint())

    slurm = Thread(target=preempt, daemon=True)
    slurm.start()
    assert work() == 128 + signal.SIGTERM
    slurm.join()
    assert list((tmp_path / "first/seed-0/checkpoints").glob("step_*"))
    assert queued[0].function.command == work.command
    assert not record_of(cell, tmp_path)


def test_a_cancelled_task_lets_its_worker_save_and_end(tmp_path):
    from rmt.experiments.launchers import QueuedWork

    code = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(7)); "
        "print(1, flush=True); time.sleep(20)"
    )
    file, log = tmp_path / "cell.json", tmp_path / "cell.log"
    work = QueuedWork(str(file), [sys.executable, "-c", code], {})

    def cancel(task: int) -> None:
        """As Ray does: an exception that only Python's own bytecode comes to know of."""
        while not (log.exists() and log.read_text()):
            time.sleep(0.01)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(task), ctypes.py_object(KeyboardInterrupt))

    ray = Thread(target=cancel, args=(get_ident(),), daemon=True)
    ray.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    ray.join()
    assert work.child.returncode == 7


def test_ray_leaves_the_handlers_of_signals_as_they_were(monkeypatch):
    def init(**_: object) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    package = SimpleNamespace(
        is_initialized=lambda: False,
        init=init,
        cluster_resources=dict,
        remote=lambda **_: lambda function: function,
    )
    monkeypatch.setitem(sys.modules, "ray", package)
    with handling_signals():
        RayLauncher()
        assert {signal.getsignal(number) for number in SIGNALS} == {REQUEST}


def test_a_shell_that_waits_for_its_worker_ends_with_sigint_too(tmp_path):
    (tmp_path / "wrap.sh").write_text('sleep 20\n"$@"\n')
    job = LocalLauncher(f"sh {tmp_path / 'wrap.sh'} {{}}").start(tmp_path / "first.yaml")
    time.sleep(0.3)
    job.stop(signal.SIGINT)
    try:
        assert job.process.wait(5) == -signal.SIGTERM
    finally:
        job.kill()


def test_a_worker_gets_the_signal_that_stops_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(launchers, "worker_command", lambda file: ["sleep", "20"])
    job = LocalLauncher().start(tmp_path / "first.yaml")
    job.stop(signal.SIGHUP)
    assert job.process.wait(5) == -signal.SIGHUP


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of ray's own
def test_ray_gives_the_same_results_as_processes(tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'recurrent-memory[ray]'")
    cells = [echo_cell("first"), echo_cell("second", {"seed": 1})]
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    try:
        assert trained("ray", tmp_path / "ray", *cells) == trained("local", tmp_path / "local", *cells)
    finally:
        ray.shutdown()


def test_local_processes_are_groups_of_their_own(tmp_path):
    job = LocalLauncher().start(write_cell(echo_cell("first", {"task": {"segments": 77}}), tmp_path))
    assert os.getpgid(job.process.pid) == job.process.pid
    job.process.wait()
    assert job.ended()


@pytest.mark.parametrize(
    ("launcher", "end"),
    [("false {}", "ended with exit code 1"), ("sh -c 'kill -9 $$' {}", "was ended by signal 9")],
)
def test_a_command_that_says_nothing_has_its_end_in_the_log(tmp_path, launcher, end):
    ended = []
    cell = echo_cell("first")
    assert not reproduce(
        [cell], tmp_path, launcher_of(launcher, tmp_path), Limits(), lambda *words: ended.append(words)
    )
    line = f"rmt: the launcher's command wrote nothing and {end}: {launcher.split()[0]} "
    assert (tmp_path / "first.log").read_text().startswith(line)
    assert ended[0][0].last_line.startswith(line)


def test_a_worker_knows_the_command_that_starts_it_unless_a_template_does(tmp_path, monkeypatch):
    monkeypatch.setattr(launchers, "ProcessJob", lambda command, file, environment: environment)
    file = tmp_path / "first.yaml"
    assert LocalLauncher().start(file) == {PARENT: str(os.getpid())}
    assert LocalLauncher("ssh elsewhere {}").start(file) == {}
