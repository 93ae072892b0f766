"""`rmt evaluate RUN`: measure a trained run on a whole split."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from rmt.cli.front import Command, TrustOptions
from rmt.config import at_least, option, required
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.precision import TO_USE, AskedPrecision, DeviceName
from rmt.tasks.unknown import RULES, UnknownRule

EXAMPLES = """examples:
  rmt evaluate runs/copy-8-3-rmt-modern-0
  rmt evaluate RUN --segments 6           the same model with shorter segments
  rmt evaluate RUN --split valid --json
  rmt evaluate RUN --data /elsewhere/book.txt
  rmt evaluate RUN --segment_length 32 --cache 256  text: other segments and another cache than in training"""

CACHE = "train.evaluate_cache="  # what --cache is in the configuration of a run


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(TrustOptions):
    """The options of `rmt evaluate`."""

    run: str = required("run folder, or one checkpoint in it", argument="RUN")
    split: Literal["train", "valid", "test"] = option("test", "which examples")
    samples: int | None = option(None, "only the first so many sequences", at_least(1))
    segments: int | None = option(None, "other number of segments than in training", at_least(1))
    segment_length: int | None = option(None, "text: other tokens per segment than in training", at_least(1))
    cache: int | None = option(None, "text: another cache than in training", at_least(0))
    batch: int | None = option(
        None,
        "sequences or lanes of text at a time; none = as many sequences as fit, or the lanes of training",
        at_least(1),
    )
    data: str | None = option(None, "where the data of the run are now")
    unknown: str | None = option(
        None, f"text: measure another text than the run's; what becomes of symbols that only it has: {RULES}"
    )
    device: DeviceName = option("auto", "where to compute")
    precision: AskedPrecision = option("auto", TO_USE)
    json: bool = option(False, "print JSON")
    quiet: bool = option(False, "no progress bar")

    def __post_init__(self) -> None:
        super().__post_init__()
        UnknownRule.parse(self.unknown or "error")


COMMAND = Command(
    "evaluate",
    "Strict free-running accuracy, teacher-forced accuracy and the original's metric; or perplexity.",
    EXAMPLES,
    EvaluateOptions,
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    with trusting(options.trust):
        metrics = measure(options)
    if options.json:
        print(json.dumps(metrics))
        return 0
    for name, value in metrics.items():
        print(f"{name:24} {value:.4f}" if isinstance(value, float) else f"{name:24} {value}")
    return 0


def measure(options: EvaluateOptions) -> dict[str, float]:
    """The metrics of a run."""
    from rmt.cli.progress import counting
    from rmt.experiments.evaluation import Evaluation, evaluate_run
    from rmt.experiments.opened import use_threads_of
    from rmt.tasks.task import BeyondSplit

    use_threads_of(options.run)
    asked = Evaluation(**{field.name: getattr(options, field.name) for field in fields(Evaluation)})
    try:
        with counting(options.split, options.quiet) as progress:
            return evaluate_run(options.run, asked, progress)
    except BeyondSplit as error:
        raise error.said_of("samples", error.count) from None
    except ConfigError as error:
        if not str(error).startswith(CACHE):
            raise
        raise ConfigError(str(error).replace(CACHE, "cache=")) from None
