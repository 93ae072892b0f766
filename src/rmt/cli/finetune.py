"""`rmt finetune DATA`: a pretrained model with memory learns to classify documents of any length."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmt.cli.arguments import Parser, add_config_file, meta, text
from rmt.cli.progress import Bar, Lines, Quiet, live
from rmt.config import from_dict, leaves, parse, read_yaml, to_dict, typed, write_yaml
from rmt.documents.config import FinetuneConfig
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt finetune reviews.csv --backbone roberta-base --segments 4 --memory 10
  rmt finetune FOLDER --backbone ./bert --text body --label topic      train.jsonl, valid.jsonl, test.jsonl
  rmt finetune hyperpartisan --path DIR --backbone MODEL --seeds 5     both splits, mean over five seeds
  rmt finetune reviews.csv --backbone MODEL --segments 1 --memory 0    the plain model, for comparison
The same command on the same --out resumes."""


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="rmt finetune",
        usage="rmt finetune DATA --backbone NAME|PATH [OPTIONS]",
        description="Fine-tune a pretrained model with memory on labelled documents "
        "(.jsonl, .csv, .tsv, .parquet, or a folder per class).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("data", metavar="DATA", nargs="?", help="file or folder of documents, or hyperpartisan")
    made.add_argument(
        "--out", metavar="DIR", help="run folder (default: runs/ and a name made of the settings)"
    )
    made.add_argument(
        "--seeds", type=int, default=1, help="runs with consecutive seeds, in folders of their own"
    )
    made.add_argument(
        "--restart", action="store_true", help="delete what is in the run folder and start anew"
    )
    made.add_argument("--quiet", action="store_true", help="print the result only")
    for leaf in leaves(FinetuneConfig):
        if leaf.name != "data":
            shown = "" if leaf.default in (None, "") else f" (default: {leaf.default})"
            made.add_argument(f"--{leaf.name}", metavar=meta(leaf), help=text(leaf) + shown)
    add_config_file(made, "settings from a YAML file; the command line goes first")
    return made


def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    config = from_dict(FinetuneConfig, settings(arguments))
    if arguments.print_config:
        print(write_yaml(to_dict(config)), end="")
        return 0
    if not config.data:
        raise ConfigError("DATA is missing: name a file or a folder of documents, or hyperpartisan")
    if arguments.seeds < 1:
        raise ConfigError(f"seeds={arguments.seeds} must be at least 1")
    return run(config, arguments)


def settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings of the command line over those of its config file."""
    values = typed(FinetuneConfig, read_yaml(arguments.config)) if arguments.config else {}
    for leaf in leaves(FinetuneConfig):
        given = getattr(arguments, leaf.name)
        if given is not None:
            values[leaf.name] = parse(given, leaf.type, leaf.name)
    return values


def run(config: FinetuneConfig, arguments: argparse.Namespace) -> int:
    """One run or one per seed, then the result."""
    import warnings
    from dataclasses import replace

    import transformers

    from rmt.documents.finetune import finetune, summary

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    corpus = read(config)
    top = Path(arguments.out or default_folder(config))
    results = []
    for seed in range(config.seed, config.seed + arguments.seeds):
        folder = top / f"seed_{seed}" if arguments.seeds > 1 else top
        with observer(f"seed {seed}", arguments.quiet) as watcher:
            for note in corpus.notes if not results else ():
                watcher.note(note)
            result, was_finished = finetune(
                replace(config, seed=seed), corpus, folder, watcher, arguments.restart
            )
        results.append(result)
        print(f"{'already finished' if was_finished else 'finished'}: {folder}")
        print(line(result), flush=True)
    if len(results) > 1:
        for split, (mean, deviation) in summary(results).items():
            print(f"{split}: F1 {mean:.4f} ± {deviation:.4f} over {len(results)} seeds")
    return 0


def read(config: FinetuneConfig) -> Any:
    """The documents of DATA."""
    from rmt.documents.corpus import Columns, read_corpus
    from rmt.documents.hyperpartisan import read_hyperpartisan

    if config.data == "hyperpartisan":
        if config.path is None:
            raise ConfigError(
                "hyperpartisan needs --path: the folder with the XML files of SemEval-2019 task 4"
            )
        return read_hyperpartisan(config.path)
    if config.path is not None:
        raise ConfigError(f"path={config.path!r} has no effect with a file or folder as DATA; leave it out")
    return read_corpus(config.data, Columns(config.text, config.label))


def default_folder(config: FinetuneConfig) -> Path:
    """A name that says what is special about a run."""
    data, backbone = Path(config.data).stem, Path(config.backbone).name
    return Path("runs") / f"{data}-{backbone}-{config.segments}-{config.memory}-{config.seed}"


def line(result: dict[str, Any]) -> str:
    """The result in a line per measured split."""
    lines = [
        f"{split}: F1 {found['f1']:.4f}, accuracy {found['accuracy']:.4f}"
        for split, found in result["metrics"].items()
        if split != "valid"
    ]
    lines.append(
        f"{result['steps']} steps, {result['seconds']:.1f} s; best on valid at step {result['best_step']}"
    )
    return "\n".join(lines)


class DocumentLines(Lines):
    """A line per evaluation."""

    def begin(self, steps: int) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None:
        print(
            f"{self.label}  step {record['step']}  loss {self.loss:.3f}  F1 {record['f1']:.4f}  "
            f"accuracy {record['accuracy']:.4f}",
            flush=True,
        )


class DocumentBar(Bar):
    """A live progress bar with loss and F1."""

    def begin(self, steps: int) -> None:
        self.progress.update(self.bar, total=steps)

    def logged(self, record: dict[str, Any]) -> None:
        self.progress.update(
            self.bar, completed=record["step"], numbers=f"loss {record['loss']:.3f}  {self.accuracy}"
        )

    def evaluated(self, record: dict[str, Any]) -> None:
        self.accuracy = f"F1 {record['f1']:.3f}"


class DocumentQuiet(Quiet):
    def begin(self, steps: int) -> None: ...


def observer(label: str, quiet: bool) -> Any:
    """The observer that fits where the output goes."""
    from rich.console import Console

    console = Console()
    if quiet:
        return DocumentQuiet()
    return DocumentBar(label, math.inf, live(console)) if console.is_terminal else DocumentLines(label)  # type: ignore[arg-type]
