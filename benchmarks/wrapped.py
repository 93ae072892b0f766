"""Wrapped models of transformers beside the plain ones: times of a training step, and their ratios.

    python benchmarks/wrapped.py minilm bert-base gpt2 --json wrapped.json

Weights are random, so nothing is downloaded. See `rmt.bench.wrapped` for what is compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from rmt.bench.wrapped import WORKLOADS, Comparison, comparisons, hardware, table_lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=25, help="timed steps of each way, in five blocks")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    device = torch.device(options.device)
    rows: list[Comparison] = []
    print(f"{hardware(device)}\n")
    for line in table_lines(noted(comparisons(options.workloads, device, options.steps), rows)):
        print(line, flush=True)
    if options.json:
        numbers = {"hardware": hardware(device), "rows": [row.record() for row in rows]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")


def noted(rows: Iterable[Comparison], measured: list[Comparison]) -> Iterator[Comparison]:
    """The rows, each also put into a list."""
    for row in rows:
        measured.append(row)
        yield row


if __name__ == "__main__":
    main()
