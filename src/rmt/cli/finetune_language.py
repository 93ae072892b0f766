"""`rmt finetune TEXT --task lm`: a pretrained decoder with memory learns a text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rmt.cli.front import Command
from rmt.cli.pretrained import quiet_transformers
from rmt.cli.progress import observer
from rmt.cli.training import RunFolderOptions, require_trusted_classes
from rmt.config import by_name, from_dict
from rmt.documents.language_config import LanguageConfig
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt finetune novel.txt --task lm --backbone MODEL                     text in, model out
  rmt finetune novel.txt --task lm --backbone MODEL --compare all        what memory is worth
  rmt finetune FOLDER --task lm --backbone MODEL --segment_length 512   train.txt, valid.txt, test.txt
The same command on the same --out resumes. rmt finetune --help is about labelled documents."""
COMMAND = Command(
    "finetune",
    "Fine-tune a pretrained decoder with memory on a text.",
    EXAMPLES,
    RunFolderOptions,
    settings=LanguageConfig,
    arguments={"data": "TEXT"},
    unpack=settings_in,
)
NAMES = {  # what a perplexity is of
    "carried": "state carried from segment to segment",
    "memory_reset": "memory reset at every segment, the cache carried",
    "reset": "state reset at every segment",
    "carried_untrained": "before training, state carried",
    "memory_reset_untrained": "before training, memory reset, the cache carried",
    "reset_untrained": "before training: plain windows",
    "cache": "the cache without memory, trained on equal tokens",
    "plain": "plain windows of segment and cache, trained on equal tokens",
    "full_attention": "full attention over a training sequence, trained on equal tokens",
}


def main(argv: Sequence[str]) -> int:
    invocation = COMMAND.collect(argv)
    if invocation is None:
        return 0
    config = from_dict(LanguageConfig, invocation.settings)
    if invocation.printed(config):
        return 0
    if not config.data:
        raise ConfigError(
            "TEXT is missing: name a text file, or a folder with train.txt, valid.txt and test.txt"
        )
    from rmt.train.processes import world_size

    if world_size() > 1:
        raise ConfigError(
            f"task='lm' is trained by one process, not by {world_size()}; leave torchrun or srun out"
        )
    with trusting(invocation.options.trust):
        require_trusted_classes(invocation)
        return run(config, invocation.options)


def run(config: LanguageConfig, options: RunFolderOptions) -> int:
    """One run or one per seed, then the result."""
    quiet_transformers()
    from rmt.documents.language import tune_language
    from rmt.documents.naming import member_folder, tuning_folder
    from rmt.train.trackers import tracked

    top = Path(options.out or tuning_folder(config, options.seeds))
    results: list[dict[str, Any]] = []
    for seed in range(config.seed, config.seed + options.seeds):
        folder = member_folder(top, seed) if options.seeds > 1 else top
        member, bar = replace(config, seed=seed), observer(f"seed {seed}", math.inf, options.quiet)
        with bar, tracked(bar, options.log, folder, by_name(member)) as watcher:
            result, was_finished = tune_language(member, folder, watcher, options.restart)
            if not was_finished:
                watcher.tested(result)
        results.append(result)
        print(f"{'already finished' if was_finished else 'finished'}: {folder}")
        print(table([result]), flush=True)
    if len(results) > 1:
        print(f"{len(results)} seeds\n{table(results)}")
    return 0


def table(results: Sequence[dict[str, Any]]) -> str:
    """Perplexities on the test text, a line each; with their deviation where there are several."""
    lines = []
    for name, text in NAMES.items():
        values = [result["metrics"]["test"][name] for result in results if name in result["metrics"]["test"]]
        if values:
            deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            lines.append(f"  perplexity {statistics.mean(values):.2f}{deviation}  {text}")
    return "\n".join(lines)
