"""`rmt finetune DATA`: a pretrained model with memory learns from documents of any length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rmt.cli.front import Command, config_file
from rmt.cli.pretrained import quiet_transformers
from rmt.cli.progress import Silent, observer, spelled
from rmt.cli.training import RunFolderOptions, require_trusted_classes
from rmt.config import by_name, from_dict
from rmt.documents.config import FinetuneConfig
from rmt.errors import ConfigError
from rmt.location import trusting
from rmt.stopping import Stopped
from rmt.train.stored import settings_in

EXAMPLES = """examples:
  rmt finetune reviews.csv --backbone roberta-base --segments 4 --memory 10
  rmt finetune FOLDER --backbone ./bert --text body --label topic      train.jsonl, valid.jsonl, test.jsonl
  rmt finetune hyperpartisan --path DIR --backbone MODEL --seeds 5     both splits, mean over five seeds
  rmt finetune hyperpartisan --path DIR --backbone MODEL --folds 10    tested on every article once
  rmt finetune reviews.csv --backbone MODEL --positive good            F1 of a class, not the mean
  rmt finetune essays.csv --backbone MODEL --task regression --label grade
  rmt finetune reviews.csv --backbone MODEL --lora 8 --lora_lr 20      small matrices instead of the backbone
  rmt finetune reviews.csv --backbone MODEL --segments 1 --memory 0    the plain model, for comparison
  rmt finetune reviews.csv --backbone MODEL --memory 0 --answer mean   segments alone, their answers averaged
  torchrun --nproc_per_node 2 -m rmt finetune reviews.csv --backbone MODEL
  rmt finetune novel.txt --task lm --backbone MODEL                    a text; see --task lm --help
The same command on the same --out resumes."""
COMMAND = Command(
    "finetune",
    "Fine-tune a pretrained model with memory on documents with labels, numbers, tags or answers "
    "(.jsonl, .csv, .tsv, .parquet, or a folder per class).",
    EXAMPLES,
    RunFolderOptions,
    settings=FinetuneConfig,
    arguments={"data": "DATA"},
    unpack=settings_in,
)


def main(argv: Sequence[str]) -> int:
    if named_task(argv) == "lm":
        from rmt.cli.finetune_language import main as tune_language

        return tune_language(argv)
    invocation = COMMAND.collect(argv)
    if invocation is None:
        return 0
    config = from_dict(FinetuneConfig, invocation.settings)
    if invocation.printed(config):
        return 0
    if not config.data:
        raise ConfigError("DATA is missing: name a file or a folder of documents, or hyperpartisan")
    with trusting(invocation.options.trust):
        require_trusted_classes(invocation)
        try:
            return run(config, invocation.options)
        except Stopped as error:
            from rmt.train.processes import is_first

            if is_first():
                raise
            return error.exit_code


def named_task(argv: Sequence[str]) -> str:
    """The task that a command line names, or its config file; nothing where neither does."""
    named = dict(pairwise(argv)) | dict(
        word.split("=", 1) for word in argv if word.startswith("--") and "=" in word
    )
    if "--task" in named or named.get("--config", "-") == "-":
        return named.get("--task", "")
    return str(config_file(named["--config"]).get("task", ""))


def run(config: FinetuneConfig, options: RunFolderOptions) -> int:
    """One run, or one per seed and fold, then the result."""
    quiet_transformers()
    from rmt.hf.extra import require_package

    require_package("accelerate")  # the Trainer of transformers does not work without it
    from rmt.documents.finetune import finetune, summary
    from rmt.documents.naming import tuning_folder
    from rmt.train.processes import is_first
    from rmt.train.trackers import tracked

    corpus = documents_of(config)
    top = Path(options.out or tuning_folder(config, options.seeds))
    results: list[dict[str, Any]] = []
    for member in members(config, options.seeds, top):
        folder, label = member.folder, f"seed {member.config.seed}{member.suffix}"
        bar = observer(label, math.inf, options.quiet) if is_first() else Silent()
        log = options.log if is_first() else None
        with bar, tracked(bar, log, folder, by_name(member.config)) as watcher:
            documents = documents_of_fold(corpus, member.config)
            for note in documents.notes if not results or config.folds else ():
                watcher.note(note)
            result, was_finished = finetune(member.config, documents, folder, watcher, options.restart)
            if not was_finished:
                watcher.tested(result)
        results.append(result)
        if is_first():
            print(f"{'already finished' if was_finished else 'finished'}: {folder}")
            print(line(result), flush=True)
    if len(results) > 1 and is_first():
        runs = "folds" if config.folds and options.seeds == 1 else "runs" if config.folds else "seeds"
        for split, (mean, deviation) in summary(results).items():
            name = spelled(results[0]["metric"])
            print(f"{split}: {name} {mean:.4f} ± {deviation:.4f} over {len(results)} {runs}")
    return 0


class Member(NamedTuple):
    """One of the runs of a command."""

    config: FinetuneConfig
    folder: Path
    suffix: str = ""  # of its name in the output


def members(config: FinetuneConfig, seeds: int, top: Path) -> Iterator[Member]:
    """The runs of a command: one per seed and fold, in folders below `top`."""
    from rmt.documents.naming import member_folder

    folds = [config.fold] if config.fold is not None or not config.folds else list(range(config.folds))
    for seed in range(config.seed, config.seed + seeds):
        for fold in folds:
            folder = member_folder(top, seed) if seeds > 1 else top
            folder = folder / f"fold_{fold}" if len(folds) > 1 else folder
            suffix = "" if fold is None else f", fold {fold}"
            yield Member(replace(config, seed=seed, fold=fold), folder, suffix)


def documents_of(config: FinetuneConfig) -> Any:
    """The documents of DATA."""
    from rmt.documents.corpus import Columns, load_corpus
    from rmt.documents.hyperpartisan import load_hyperpartisan
    from rmt.documents.kinds import KINDS

    if config.data == "hyperpartisan":
        if config.path is None:
            raise ConfigError(
                "hyperpartisan needs --path: the folder with the XML files of SemEval-2019 task 4"
            )
        if config.task != "classification":
            raise ConfigError(f"task={config.task!r}: hyperpartisan has classes; leave --task out")
        return load_hyperpartisan(config.path)
    if config.path is not None:
        raise ConfigError(f"path={config.path!r} has no effect with a file or folder as DATA; leave it out")
    columns = Columns(config.text, config.label, question=config.question)
    return load_corpus(config.data, columns, KINDS[config.task])


def documents_of_fold(corpus: Any, config: FinetuneConfig) -> Any:
    """The documents of a run: all of them, or as its fold divides them."""
    from rmt.documents.corpus import fold_of
    from rmt.documents.kinds import KINDS

    if config.fold is None:
        return corpus
    return fold_of(corpus, config.fold, config.folds, KINDS[config.task])


def line(result: dict[str, Any]) -> str:
    """The result in a line per measured split, each score beside that of a constant answer."""
    lines = [
        f"{split}: {', '.join(score_line(result, split, name) for name in ordered(result, scores))}"
        for split, scores in result["metrics"].items()
        if split != "valid"
    ]
    lines.append(
        f"{result['steps']} steps, {result['seconds']:.1f} s; best on valid at step {result['best_step']}"
    )
    return "\n".join(lines)


def ordered(result: dict[str, Any], scores: dict[str, float]) -> list[str]:
    """The metrics, the one that decides first."""
    return sorted(scores, key=lambda name: name != result["metric"])


def score_line(result: dict[str, Any], split: str, name: str) -> str:
    """A score, and what a constant answer comes to; results of earlier releases do not know that."""
    constant = result.get("constant", {}).get(split, {}).get(name)
    beside = "" if constant is None else f" (constant answer {constant:.4f})"
    return f"{spelled(name)} {result['metrics'][split][name]:.4f}{beside}"
