"""`rmt evaluate RUN`: measure a trained run on a whole split."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt evaluate runs/copy-8-3-rmt-modern-0
  rmt evaluate RUN --segments 6           the same model with shorter segments
  rmt evaluate RUN --split valid --json"""


def main(argv: Sequence[str]) -> int:
    parser = command(
        "rmt evaluate",
        "Strict free-running accuracy, teacher-forced accuracy and the original's metric.",
        EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="run folder, or one checkpoint in it")
    parser.add_argument("--split", default="test", help="train, valid or test (default: test)")
    parser.add_argument("--samples", type=int, help="only the first so many sequences")
    parser.add_argument("--segments", type=int, help="other number of segments than in training")
    parser.add_argument("--batch", type=int, default=500, help="sequences at a time (default: 500)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    one_of(arguments.split, ["train", "valid", "test"], "split")
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    for name in ("samples", "segments", "batch"):
        if getattr(arguments, name) is not None and getattr(arguments, name) < 1:
            raise ConfigError(f"{name}={getattr(arguments, name)} must be at least 1")
    metrics = measure(arguments)
    if arguments.json:
        print(json.dumps(metrics))
        return 0
    for name, value in metrics.items():
        print(f"{name:24} {value:.4f}" if isinstance(value, float) else f"{name:24} {value}")
    return 0


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """The metrics of a run."""
    from rmt.cli.progress import counting
    from rmt.evaluate.evaluate import evaluate
    from rmt.tasks.segments import segment_length
    from rmt.train.checkpoint import load, read_config, run_folder
    from rmt.train.config import build_task
    from rmt.train.device import device_of

    config = read_config(run_folder(arguments.run))
    task = build_task(config.task)
    with counting(f"{task.name}, {arguments.split}", arguments.quiet) as progress:
        return evaluate(
            load(arguments.run).to(device_of(arguments.device)),
            task,
            segment_length(task.total_length, arguments.segments or config.task.segments),
            split=arguments.split,
            samples=arguments.samples,
            batch=arguments.batch,
            progress=progress,
        )
