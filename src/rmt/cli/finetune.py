"""`rmt finetune DATA`: a pretrained model with memory learns to classify documents of any length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rmt.cli.front import Command
from rmt.cli.pretrained import quiet_transformers
from rmt.cli.progress import observer
from rmt.cli.training import RunFolderOptions
from rmt.config import by_name, from_dict
from rmt.documents.config import FinetuneConfig
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt finetune reviews.csv --backbone roberta-base --segments 4 --memory 10
  rmt finetune FOLDER --backbone ./bert --text body --label topic      train.jsonl, valid.jsonl, test.jsonl
  rmt finetune hyperpartisan --path DIR --backbone MODEL --seeds 5     both splits, mean over five seeds
  rmt finetune reviews.csv --backbone MODEL --segments 1 --memory 0    the plain model, for comparison
The same command on the same --out resumes."""
COMMAND = Command(
    "finetune",
    "Fine-tune a pretrained model with memory on labelled documents "
    "(.jsonl, .csv, .tsv, .parquet, or a folder per class).",
    EXAMPLES,
    RunFolderOptions,
    settings=FinetuneConfig,
    arguments={"data": "DATA"},
    unpack=settings_in,
)


def main(argv: Sequence[str]) -> int:
    invocation = COMMAND.collect(argv)
    if invocation is None:
        return 0
    config = from_dict(FinetuneConfig, invocation.settings)
    if invocation.printed(config):
        return 0
    if not config.data:
        raise ConfigError("DATA is missing: name a file or a folder of documents, or hyperpartisan")
    with trusting(invocation.options.trust):
        return run(config, invocation.options)


def run(config: FinetuneConfig, options: RunFolderOptions) -> int:
    """One run or one per seed, then the result."""
    quiet_transformers()
    from rmt.hf.extra import require_package

    require_package("accelerate")  # the Trainer of transformers does not work without it
    from rmt.documents.finetune import finetune, summary
    from rmt.train.trackers import tracked

    corpus = documents_of(config)
    top = Path(options.out or default_folder(config))
    results: list[dict[str, Any]] = []
    for seed in range(config.seed, config.seed + options.seeds):
        folder = top / f"seed_{seed}" if options.seeds > 1 else top
        bar = observer(f"seed {seed}", math.inf, options.quiet)
        with bar, tracked(bar, options.log, folder, by_name(config) | {"seed": seed}) as watcher:
            for note in corpus.notes if not results else ():
                watcher.note(note)
            result, was_finished = finetune(
                replace(config, seed=seed), corpus, folder, watcher, options.restart
            )
            if not was_finished:
                watcher.tested(result)
        results.append(result)
        print(f"{'already finished' if was_finished else 'finished'}: {folder}")
        print(line(result), flush=True)
    if len(results) > 1:
        for split, (mean, deviation) in summary(results).items():
            print(f"{split}: F1 {mean:.4f} ± {deviation:.4f} over {len(results)} seeds")
    return 0


def documents_of(config: FinetuneConfig) -> Any:
    """The documents of DATA."""
    from rmt.documents.corpus import Columns, load_corpus
    from rmt.documents.hyperpartisan import load_hyperpartisan

    if config.data == "hyperpartisan":
        if config.path is None:
            raise ConfigError(
                "hyperpartisan needs --path: the folder with the XML files of SemEval-2019 task 4"
            )
        return load_hyperpartisan(config.path)
    if config.path is not None:
        raise ConfigError(f"path={config.path!r} has no effect with a file or folder as DATA; leave it out")
    return load_corpus(config.data, Columns(config.text, config.label))


def default_folder(config: FinetuneConfig) -> Path:
    """A name that says what is special about a run."""
    data, backbone = Path(config.data).stem, Path(config.backbone).name
    return Path("runs") / f"{data}-{backbone}-{config.segments}-{config.memory}-{config.seed}"


def line(result: dict[str, Any]) -> str:
    """The result in a line per measured split."""
    lines = [
        f"{split}: F1 {scores['f1']:.4f}, accuracy {scores['accuracy']:.4f}"
        for split, scores in result["metrics"].items()
        if split != "valid"
    ]
    lines.append(
        f"{result['steps']} steps, {result['seconds']:.1f} s; best on valid at step {result['best_step']}"
    )
    return "\n".join(lines)
