"""Too little memory is a line, in whatever words torch says it; another error of torch stays what it is."""

import pytest

from rmt.cli.main import is_about_memory


@pytest.mark.parametrize(
    "words",
    [
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes",
        "unable to mmap 54048 bytes from file <optimizer.safetensors>: Cannot allocate memory (12)",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
    ],
)
def test_too_little_memory_is_known_by_its_words(words):
    assert is_about_memory(RuntimeError(words))


def test_another_error_is_not_about_memory():
    assert not is_about_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert is_about_memory(MemoryError())
