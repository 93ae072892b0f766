"""Every kernel compiles and fits a card's processors, whichever tiles rows and widths choose."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from rmt.gpu import kernels
from rmt.gpu.kernels.fitting import FUSED_SHARED

ROOT = Path(__file__).parents[2]
H200 = 232_448  # bytes of shared memory that a program may have: 227 KiB
SLOW = pytest.mark.slow
MEMORY, TOKENS = 4, 4
FUSED = {"fused_layer_kernel", "fused_layer_gradient_kernel"}
# inner widths: a matrix is one part of 128 columns, or two
NARROW = [
    pytest.param(dtype, width, inner, rows, marks=() if (width, inner, rows) == (64, 128, 768) else SLOW)
    for dtype, width in (("float32", 64), ("bfloat16", 128))
    for inner in (128, 256)
    for rows in (768, 6144, 19200)
]
LONG = {"layers": 2, "heads": 2, "head_width": 32, "width": 192, "inner_width": 256}
LONG_CASES = {
    "rotary": {"positions": "rotary", "memory": {"size": 4}},
    "rotary-cache": {"positions": "rotary", "cache": {"size": 8}, "dropout": 0.1},
    "relative": {"memory": {"size": 4}, "norm": "post"},
    "relative-both": {"memory": {"size": 4}, "cache": {"size": 8}, "dropout": 0.1},
}


def compiled(
    model: dict[str, Any], dtype: str, batch: int, tokens: int, capability: int = 90
) -> dict[str, int]:
    """The shared memory of the kernels of an update, in bytes by name."""
    sizes = {"batch": batch, "tokens": tokens, "capability": capability}
    settings = json.dumps({"model": model, "dtype": dtype, **sizes})
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.gpu.compiled", settings]
    ran = subprocess.run(command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    taken: dict[str, int] = json.loads(ran.stdout)
    assert 0 < max(taken.values()) <= H200, taken
    return taken


def narrow(dtype: str, width: int, inner: int, rows: int, capability: int = 90) -> dict[str, int]:
    sizes = {"layers": 2, "heads": 4, "head_width": 32, "width": width, "inner_width": inner}
    batch = rows // (TOKENS + 2 * MEMORY)
    return compiled({"memory": {"size": MEMORY}, **sizes}, dtype, batch, TOKENS, capability)


@pytest.mark.parametrize(("dtype", "width", "inner", "rows"), NARROW)
def test_the_kernels_of_a_fused_layer_fit_the_shared_memory_of_a_processor(dtype, width, inner, rows):
    assert set(narrow(dtype, width, inner, rows)) >= FUSED


@SLOW
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("rows", [768, 3072, 19200])
def test_a_card_whose_layers_are_fused_has_the_shared_memory_for_the_widest(capability, rows):
    taken = narrow("bfloat16", 128, 512, rows, capability)
    assert max(taken[name] for name in FUSED) <= FUSED_SHARED, taken


@SLOW
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("case", LONG_CASES)
def test_the_kernels_of_long_segments_compile(case, dtype):
    assert "attention_kernel" in compiled(LONG | LONG_CASES[case], dtype, 2, 80)


@SLOW
def test_every_kernel_is_compiled_by_some_case():
    modules = [import_module(found.name) for found in iter_modules(kernels.__path__, f"{kernels.__name__}.")]
    names = {name for module in modules for name in vars(module) if name.endswith("_kernel")}
    taken = narrow("bfloat16", 128, 256, 768).keys()
    for settings in LONG_CASES.values():
        taken |= compiled(LONG | settings, "bfloat16", 2, 80).keys()
    taken |= compiled(LONG | LONG_CASES["rotary"], "bfloat16", 2, 8).keys()  # one tile for all
    taken |= compiled(LONG | LONG_CASES["rotary"], "float32", 2, 80).keys()
    assert taken == names
