"""`rmt evaluate RUN`: measure a trained run on a whole split."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import fields

from rmt.cli.arguments import command, one_of, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt evaluate runs/copy-8-3-rmt-modern-0
  rmt evaluate RUN --segments 6           the same model with shorter segments
  rmt evaluate RUN --split valid --json
  rmt evaluate RUN --data /elsewhere/book.txt
  rmt evaluate RUN --length 32 --cache 256  text: other segments and another cache than in training"""


def main(argv: Sequence[str]) -> int:
    parser = command(
        "rmt evaluate",
        "Strict free-running accuracy, teacher-forced accuracy and the original's metric; or perplexity.",
        EXAMPLES,
    )
    parser.add_argument("run", metavar="RUN", help="run folder, or one checkpoint in it")
    parser.add_argument("--split", default="test", help="train, valid or test (default: test)")
    parser.add_argument("--samples", type=int, help="only the first so many sequences")
    parser.add_argument("--segments", type=int, help="other number of segments than in training")
    parser.add_argument("--length", type=int, help="text: other tokens per segment than in training")
    parser.add_argument("--cache", type=int, help="text: another cache than in training")
    parser.add_argument("--batch", type=int, help="sequences (default: 500) or lanes of text at a time")
    parser.add_argument("--data", metavar="PATH", help="where the data of the run are now")
    parser.add_argument(
        "--unknown",
        metavar="error|skip|replace:SYMBOL",
        help="text: measure another text than the run's; what becomes of symbols that only it has",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    one_of(arguments.split, ["train", "valid", "test"], "split")
    one_of(arguments.device, ["auto", "cpu", "cuda"], "device")
    for name, least in (("samples", 1), ("segments", 1), ("batch", 1), ("length", 1), ("cache", 0)):
        if getattr(arguments, name) is not None and getattr(arguments, name) < least:
            raise ConfigError(f"{name}={getattr(arguments, name)} must be at least {least}")
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
    from rmt.experiments.evaluation import Evaluation, evaluate_run

    asked = Evaluation(**{field.name: getattr(arguments, field.name) for field in fields(Evaluation)})
    with counting(arguments.split, arguments.quiet) as progress:
        return evaluate_run(arguments.run, asked, progress)
