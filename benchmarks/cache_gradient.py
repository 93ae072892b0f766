"""What a cache costs that no gradient goes through: Transformer-XL as it is, and with that gradient.

    python benchmarks/cache_gradient.py
    python benchmarks/cache_gradient.py --steps 3000 --seeds 3

A copy of 12 symbols in 9 segments by 4 layers × 64, on a CPU. What is asked for lies within its reach (layers
× cache), three borders back. Both trainings are `rmt train` with the recipe's defaults, the same seeds and
examples; in the second, layer inputs are cached as they are instead of detached, so that the loss of a
segment says what earlier ones should have kept. It is no Transformer-XL any more, and takes the memory of all
segments: an experiment, not a setting.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

from torch import Tensor

from rmt.cli.main import main as rmt
from rmt.core.cache import Cache
from rmt.core.spans import Spans
from rmt.core.state import State

TASK = "copy --segments 9 --length 12 --model transformer_xl --model.layers 4 --device cpu --quiet"
NAMES = {False: "detached, as in Transformer-XL", True: "with its gradient"}


def push_with_gradient(
    self: Cache, state: State, layer_inputs: tuple[Tensor, ...], spans: Spans, valid: Tensor | None = None
) -> tuple[tuple[Tensor, ...], Tensor]:
    """`Cache.push` without its `detach`."""
    assert valid is None, "sequences of one length have no padding"
    new = tuple(self.kept(h, spans) for h in layer_inputs)
    cache = tuple(self.last_rows(old, rows) for old, rows in zip(state.cache, new, strict=True))
    return cache, (state.cached + new[0].shape[1]).clamp(max=self.size)


def train(folder: Path, seed: int, steps: int, with_gradient: bool, task: str = TASK) -> dict[int, float]:
    """Accuracy on the validation set by step."""
    cache = patch.object(Cache, "push", push_with_gradient) if with_gradient else nullcontext()
    with cache:
        code = rmt(["train", *task.split(), "--steps", f"{steps}", "--seed", f"{seed}", "--out", str(folder)])
    if code:
        raise SystemExit(code)
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["accuracy"] for line in lines if line.get("split") == "valid"}


def table(curves: dict[tuple[bool, int], dict[int, float]]) -> list[str]:
    """A line per run: accuracy at a few steps."""
    shown = sorted(next(iter(curves.values())))
    shown = shown[len(shown) % 5 :: max(1, len(shown) // 5)]
    lines = [
        "| cache | seed | " + " | ".join(f"{step:,}" for step in shown) + " |",
        "|---|---|" + "---|" * len(shown),
    ]
    for (with_gradient, seed), curve in sorted(curves.items()):
        scores = " | ".join(f"{curve[step]:.4f}" for step in shown)
        lines.append(f"| {NAMES[with_gradient]} | {seed} | {scores} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/cache-gradient"))
    options = parser.parse_args(arguments)
    curves = {
        (with_gradient, seed): train(
            options.out / f"{'with' if with_gradient else 'without'}-{seed}",
            seed,
            options.steps,
            with_gradient,
        )
        for seed in range(options.seeds)
        for with_gradient in (False, True)
    }
    print("\n".join(table(curves)))


if __name__ == "__main__":
    main()
