"""Fused layers fit an H200's processor, whichever tiles their rows and widths choose."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
H200 = 232_448  # bytes of shared memory that a program may have: 227 KiB
SLOW = pytest.mark.slow
# inner widths: a matrix is one part of 128 columns, or two
CASES = [
    pytest.param(dtype, width, inner, rows, marks=() if (width, inner, rows) == (64, 128, 768) else SLOW)
    for dtype, width in (("float32", 64), ("bfloat16", 128))
    for inner in (128, 256)
    for rows in (768, 6144, 19200)
]


@pytest.mark.parametrize(("dtype", "width", "inner", "rows"), CASES)
def test_the_kernels_of_a_fused_layer_fit_the_shared_memory_of_a_processor(dtype, width, inner, rows):
    command = [sys.executable, "-m", "tests.gpu.shared_memory", dtype, *map(str, (width, inner, rows))]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    taken = json.loads(ran.stdout)
    assert set(taken) == {"fused_layer_kernel", "fused_layer_gradient_kernel"}
    assert 0 < max(taken.values()) <= H200, taken
