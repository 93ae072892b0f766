"""Pretrained classes with tiny random weights, in float64; without transformers the folder is skipped."""

import importlib.util
import warnings
from collections.abc import Iterator

import pytest
import torch

if importlib.util.find_spec("transformers") is None:
    collect_ignore_glob = ["test_[!e]*.py"]  # test_extra_hf.py stays, and says why
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # DeBERTa's module uses torch.jit.script
        importlib.import_module("transformers.models.deberta_v2.modeling_deberta_v2")


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)
