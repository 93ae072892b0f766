"""`rmt train TASK`: train a model, or go on where a run stopped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rmt.cli import task_options
from rmt.cli.front import Command
from rmt.cli.loading import loading
from rmt.cli.training import (
    VARYING,
    RunFolderOptions,
    refuse_settings_of_another,
    require_trusted_classes,
)
from rmt.config import by_name
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.stopping import Stopped
from rmt.train.config import RunConfig
from rmt.train.names import ALIASES
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt train copy                                   copy 8 symbols through 3 segments: a minute on a CPU
  rmt train copy --model transformer_xl --cache 8  the same with Transformer-XL
  rmt train reverse --size paper --length 24 --segments 6 --target 0.99 --device cuda
  rmt train copy --depth 1 --schedule sliding      one update per segment, gradient through one border
  rmt train copy --seeds 8                         eight seeds at once
  rmt train my_tasks:Sorting --segments 2          a task of your own
  rmt train text --data book.txt                   language modelling, bytes, minutes on a CPU
  rmt train text --data enwik8 --size enwik8-base --scale gpu --model transformer_xl_rmt
The same command on the same --out resumes."""
COMMAND = Command(
    "train",
    "Train one of the paper's models on a task.",
    EXAMPLES,
    RunFolderOptions,
    settings=RunConfig,
    aliases=ALIASES,
    arguments={"task.name": "TASK"},
    varying=VARYING,
    appendix=task_options.section,
    unpack=settings_in,
)


def main(argv: Sequence[str]) -> int:
    invocation = COMMAND.collect(argv)
    if invocation is None:
        return 0
    if "name" not in invocation.settings.get("task", {}):
        raise ConfigError("TASK is missing: name one, such as rmt train copy; rmt data list shows them")
    with trusting(invocation.options.trust):
        require_trusted_classes(invocation)
    with loading():
        from rmt.experiments.recipe import resolve

    refuse_settings_of_another(invocation)
    config = resolve(invocation.settings)
    if invocation.printed(config):
        return 0
    return (
        train_one(config, invocation.options)
        if invocation.options.seeds == 1
        else train_many(config, invocation.options)
    )


def train_one(config: RunConfig, options: RunFolderOptions) -> int:
    from rmt.cli.progress import observer
    from rmt.experiments.naming import default_folder
    from rmt.experiments.run import train
    from rmt.train.processes import is_first
    from rmt.train.trackers import tracked

    folder = Path(options.out or default_folder(config, f"-{config.seed}"))
    first = is_first()
    watcher = observer(config.preset, config.train.steps, options.quiet or not first)
    with watcher, tracked(watcher, options.log if first else None, folder, by_name(config)) as tracking:
        try:
            result, was_finished = train(config, folder, tracking, restart=options.restart)
            if not was_finished:
                tracking.tested(result)
        except Stopped as error:
            if first:
                raise
            return error.exit_code
    if not first:
        return 0
    print(f"{'already finished' if was_finished else 'finished'}: {folder}")
    print(summary(result))
    return 0


def train_many(config: RunConfig, options: RunFolderOptions) -> int:
    """Seeds at once; ends with a line for each and one for all."""
    from rmt.cli.progress import observers
    from rmt.experiments.naming import default_folder
    from rmt.experiments.run import train_seeds
    from rmt.train.folder import seed_folder
    from rmt.train.trackers import tracked

    folder = Path(options.out or default_folder(config, "", f"seed-{config.seed}"))
    settings = by_name(config)
    labels = [f"{config.preset} seed {config.seed + index}" for index in range(options.seeds)]
    with ExitStack() as shown:
        watchers = observers(labels, config.train.steps, options.quiet)
        for watcher in watchers:
            shown.enter_context(watcher)
        tracking = [
            shown.enter_context(
                tracked(watcher, options.log, seed_folder(folder, seed), settings | {"seed": seed})
            )
            for seed, watcher in enumerate(watchers, config.seed)
        ]
        were_finished = not options.restart and all(
            (seed_folder(folder, config.seed + index) / "result.json").exists()
            for index in range(options.seeds)
        )
        results = train_seeds(config, folder, tracking, restart=options.restart)
    print(f"{'already finished' if were_finished else 'finished'}: {folder}")
    for result in results:
        print(f"seed {result['seed']}  {result['metric']} {result['value']:.4f}  {result['steps']} steps")
    values = [result["value"] for result in results]
    print(
        f"{results[0]['metric']} {mean(values):.4f} ± {stdev(values):.4f} on the test split, "
        f"mean and standard deviation of {len(values)} seeds"
    )
    return 0


def summary(result: dict[str, Any]) -> str:
    """The result in two lines."""
    from rmt.cli.progress import scores

    metrics = result["metrics"]
    effort = f"{result['steps']} steps, {result['samples']} samples, {result['seconds']:.1f} s of training"
    if "perplexity" in metrics:
        return (
            f"{scores(metrics)} on {metrics['tokens']:,} test tokens (state carried on)\n"
            f"{effort}, {result['tokens']:,} tokens"
        )
    return (
        f"{result['metric']} {result['value']:.4f} on {metrics['samples']} test sequences "
        f"(free-running; characters {metrics['accuracy']:.4f}, sequences {metrics['sequence_accuracy']:.4f}, "
        f"teacher-forced {metrics['teacher_forced_accuracy']:.4f}, "
        f"original metric {metrics['original_accuracy']:.4f})\n{effort}"
    )
