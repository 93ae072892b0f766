"""Twins are compared to rounding, so they run where rounding is small; kernels run without a GPU too."""

import gc
import importlib
import os
import pkgutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.covering import mark_slow

# models are built in float64 there
EXACT = {
    "laws",
    "nn",
    "evaluate",
    "infer",
    "analysis",
    "test_associative_memory.py",
    "test_bptt.py",
    "test_original_loop.py",
    "test_truncated.py",
}


def interpret_kernels() -> None:
    """Load all kernels for Triton's interpreter, on a machine without a GPU.

    Triton asks for the variable when it is first imported, which other tests may do (torch.compile does), so
    this is done before them all; and then it is gone, so that processes that tests start do not inherit it.
    """
    if torch.cuda.is_available() or find_spec("triton") is None:
        return
    os.environ["TRITON_INTERPRET"] = "1"
    package = importlib.import_module("rmt.gpu.kernels")
    for module in pkgutil.iter_modules(package.__path__, "rmt.gpu.kernels."):
        importlib.import_module(module.name)
    del os.environ["TRITON_INTERPRET"]


def heed_signals() -> None:
    """Undo what nohup and shells in the background do: tests and the processes they start take signals."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)


interpret_kernels()
heed_signals()
torch.set_num_threads(1)  # processes that tests fork would wait for ever for the threads of this one


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_slow(items)


def pytest_collection_finish() -> None:
    """What is loaded by now stays: no test has to search it for garbage again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def float64(request: pytest.FixtureRequest) -> Iterator[None]:
    """Float64 as the default where a law is tested."""
    exact = EXACT & set(Path(request.node.path).relative_to(Path(__file__).parent).parts)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if exact else before)
    yield
    torch.set_default_dtype(before)
