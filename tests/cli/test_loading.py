"""What a command loads is not searched for garbage."""

import gc
import subprocess
import sys

import pytest

from rmt.cli.loading import loading


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_torch_is_loaded_without_a_search_and_never_searched_again():
    code = """
import gc
from rmt.cli.loading import loading
searches = []
gc.callbacks.append(lambda phase, numbers: searches.append(phase))
with loading():
    import torch
    assert not searches
assert gc.isenabled()
print(gc.get_freeze_count() > 100_000, any(part is torch for part in gc.get_objects()))
"""
    assert python(code) == "True False\n"


def test_after_an_error_garbage_is_searched_for_again():
    code = """
import gc
from rmt.cli.loading import loading
try:
    with loading():
        import no_such_module
except ImportError:
    print(gc.isenabled())
"""
    assert python(code) == "True\n"


def test_where_torch_is_loaded_already_nothing_changes():
    pytest.importorskip("torch")
    frozen = gc.get_freeze_count()
    with loading():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
