"""Kernels that are measured run with the constants that are tried."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton, which is for Linux only")

from rmt.bench import tunable
from rmt.gpu.heads import Heads, seen_of
from rmt.gpu.tiles import TILES


def test_tiles_of_attention_have_as_many_queries_as_are_tried(monkeypatch):
    tried: list[int] = []

    def attention(heads: Heads, output: torch.Tensor) -> torch.Tensor:
        tried.append(heads.seen.rows)
        return output

    mask = torch.ones(tunable.ROWS, tunable.ROWS, dtype=torch.bool).tril()
    monkeypatch.setattr(tunable, "SEGMENTS", 1)
    monkeypatch.setattr(tunable, "numbers", torch.zeros)
    monkeypatch.setattr(tunable, "causal", lambda: seen_of(mask, cache=False))
    monkeypatch.setattr(tunable.kernels, "attention", attention)
    monkeypatch.setattr(tunable.kernels, "attention_gradient", lambda *_: None)
    run = tunable.attention()
    for queries in (64, 32, 128, 64):
        monkeypatch.setitem(TILES, "attention", {**TILES["attention"], "queries": queries})
        run()
    assert tried == [64, 32, 128, 64]
