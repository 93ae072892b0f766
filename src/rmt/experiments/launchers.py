"""Where workers run: in processes of this machine, through a command of one's own, by Slurm, on Ray.

Every way runs `python -m rmt.experiments.worker SETTINGS`, so folders, logs and results are the same.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rmt.errors import ConfigError
from rmt.experiments.holding import IN_USE, POLL_SECONDS
from rmt.stopping import PARENT, SIGNALS
from rmt.store import append_line

LOCAL = "local"
NAMES = (LOCAL, "slurm", "ray")
HOLE = "{}"  # of a template: where the worker's command goes
SIGNAL_DELAY_SECONDS = 120  # before the time of a Slurm job is over: for the worker to save
SLURM_MINUTES = 24 * 60  # of a job; a cell that is not finished then is put into the queue again


class Job(Protocol):
    """A worker that was started."""

    def ended(self) -> bool: ...

    def stop(self, number: int) -> None: ...

    def kill(self) -> None: ...


class NoJob:
    """What stands for a worker where there is nothing to do."""

    def ended(self) -> bool:
        return True

    def stop(self, number: int) -> None: ...

    def kill(self) -> None: ...


NO_JOB = NoJob()


class WorkerLauncher(Protocol):
    """What starts workers."""

    def start(self, file: Path) -> Job: ...


def worker_command(file: Path) -> list[str]:
    return [sys.executable, "-m", "rmt.experiments.worker", str(file)]


class ProcessJob:
    """A worker in a process of this machine, a group of its own: a terminal's Ctrl-C reaches it once."""

    def __init__(self, command: Sequence[str], file: Path, environment: Mapping[str, str]):
        self.is_worker = PARENT in environment  # else what a template names, which starts the worker
        self.command, self.log = shlex.join(command), file.with_suffix(".log")
        with self.log.open("a") as log:
            self.logged_before = log.tell()
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                process_group=0,
            )

    def ended(self) -> bool:
        code = self.process.poll()
        is_silent = self.log.stat().st_size == self.logged_before
        if code not in (None, IN_USE) and is_silent:
            append_line(
                self.log, f"rmt: the launcher's command wrote nothing and {end_of(code)}: {self.command}"
            )
        return code is not None

    def stop(self, number: int) -> None:
        """Send a signal; a shell that waits for the worker would hold back SIGINT."""
        self.process.send_signal(number if self.is_worker else signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def end_of(code: int) -> str:
    """How a process ended, by its exit code as Python has it."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


class LocalLauncher:
    """Processes of this machine; with a template, each is a command that has the worker's in it."""

    def __init__(self, template: str = HOLE):
        self.words = split_template(template)

    def start(self, file: Path) -> ProcessJob:
        is_child = self.words == [HOLE]  # else what the template names starts it, perhaps on another machine
        environment = {PARENT: str(os.getpid())} if is_child else {}
        return ProcessJob(filled(self.words, worker_command(file)), file, environment)


def split_template(template: str) -> list[str]:
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise ConfigError(
            f"launcher={template!r} is no command ({error}); quote it as a shell does"
        ) from None
    if not any(HOLE in word for word in words):
        raise ConfigError(
            f"launcher={template!r} is not known: use local, slurm, ray, or a command with {HOLE} in it"
        )
    return words


def filled(words: Sequence[str], command: Sequence[str]) -> list[str]:
    """A template with a command in its hole: as words of its own, or quoted as a part of a word."""
    parts = ([*command] if word == HOLE else [word.replace(HOLE, shlex.join(command))] for word in words)
    return [word for part in parts for word in part]


class QueuedWork:
    """What a Slurm job runs: the worker as a child, which saves when the job is told to go."""

    def __init__(self, file: str, command: Sequence[str], environment: Mapping[str, str]):
        self.file, self.command, self.environment = file, list(command), dict(environment)
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        with Path(self.file).with_suffix(".log").open("a") as log:
            self.child = subprocess.Popen(
                self.command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **self.environment}
            )
            try:
                while (code := self.child.poll()) is None:
                    time.sleep(POLL_SECONDS)  # Ray's cancellation does not reach a wait()
                return code
            except BaseException:  # the task is cancelled: Ray raises KeyboardInterrupt in it
                self.end_child()
                raise

    def end_child(self) -> None:
        """Let the worker save and end."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait()

    def checkpoint(self) -> Any:
        """Called by submitit before a job's time is over or it is preempted: save, and queue again."""
        from submitit.helpers import DelayedSubmission

        self.end_child()
        return DelayedSubmission(QueuedWork(self.file, self.command, self.environment))


class SlurmJob:
    """A job in Slurm's queue; it goes on when the command that queued it has ended."""

    def __init__(self, job: Any):
        self.job = job

    def ended(self) -> bool:
        return bool(self.job.done())

    def stop(self, number: int) -> None:
        self.job.cancel()

    def kill(self) -> None:
        self.job.cancel()


class SlurmLauncher:
    """Jobs by submitit, requeued when they are preempted or their time is over."""

    def __init__(self, folder: Path):
        submitit = optional("submitit", "sweep")
        self.executor = submitit.SlurmExecutor(folder=folder / "slurm", max_num_timeout=100)
        self.executor.update_parameters(
            job_name="rmt",
            time=SLURM_MINUTES,
            signal_delay_s=SIGNAL_DELAY_SECONDS,
            cpus_per_task=2,
            additional_parameters={"requeue": True},
            **({"gpus_per_node": 1} if "RMT_SLURM_GPUS" in os.environ else {}),
        )

    def start(self, file: Path) -> SlurmJob:
        return SlurmJob(self.executor.submit(QueuedWork(str(file), worker_command(file), inherited())))


class RayJob:
    """A worker that a Ray cluster runs."""

    def __init__(self, ray: Any, reference: Any):
        self.ray, self.reference = ray, reference

    def ended(self) -> bool:
        ready, _ = self.ray.wait([self.reference], timeout=0)
        return bool(ready)

    def stop(self, number: int) -> None:
        self.ray.cancel(self.reference, force=False)

    def kill(self) -> None:
        self.ray.cancel(self.reference, force=True)


class RayLauncher:
    """Tasks of a Ray cluster, or of one started here; each has a core, and a GPU where there are some."""

    def __init__(self) -> None:
        self.ray = optional("ray", "ray")
        if not self.ray.is_initialized():
            with keeping_handlers():
                self.ray.init(log_to_driver=False, include_dashboard=False)
        gpus = min(1.0, self.ray.cluster_resources().get("GPU", 0.0))
        self.remote = self.ray.remote(num_cpus=1, num_gpus=gpus)(run_queued)

    def start(self, file: Path) -> RayJob:
        resolved = file.resolve()
        return RayJob(
            self.ray, self.remote.remote(str(resolved), worker_command(resolved), inherited(), os.getcwd())
        )


@contextmanager
def keeping_handlers() -> Iterator[None]:
    """Whatever handlers of signals are installed in here, those of before stay."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS if is_main}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_queued(file: str, command: Sequence[str], environment: Mapping[str, str], folder: str) -> int:
    """The worker as a child of a Ray task, in the folder where it was asked for."""
    os.chdir(folder)
    return QueuedWork(file, command, environment)()


def inherited() -> dict[str, str]:
    """What a worker elsewhere needs of this process's environment."""
    return {name: os.environ[name] for name in ("PYTHONPATH", "OMP_NUM_THREADS") if name in os.environ}


def optional(package: str, extra: str) -> Any:
    """A package that only one launcher needs."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        raise ConfigError(
            f"launcher={'slurm' if package == 'submitit' else package} needs {package}: "
            f"pip install 'recurrent-memory[{extra}]'"
        ) from None


def check_launcher(name: str) -> None:
    """Raise for what is neither the name of a launcher nor a template."""
    if name not in NAMES:
        split_template(name)


def launcher_of(name: str, folder: Path) -> WorkerLauncher:
    """The launcher with a name, or of a template."""
    if name == LOCAL:
        return LocalLauncher()
    if name == "slurm":
        return SlurmLauncher(folder)
    return RayLauncher() if name == "ray" else LocalLauncher(name)
