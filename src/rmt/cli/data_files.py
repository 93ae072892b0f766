"""`rmt data get|prepare|check`: corpora for language modelling."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError


def add_commands(commands: Any, look: dict[str, Any]) -> None:
    """The three commands, beside those of the tasks."""
    get = commands.add_parser("get", help="download a known corpus", **look)
    get.add_argument("name", metavar="NAME", help="wikitext-2, wikitext-103, enwik8, enwik8-204 or text8")
    get.add_argument("--out", metavar="DIR", help="folder for its files (default: data/NAME)")
    get.add_argument("--path", metavar="COPY", help="a copy of the zip archive, instead of downloading it")
    prepare = commands.add_parser("prepare", help="turn a corpus or your own text into token files", **look)
    prepare.add_argument(
        "place", metavar="NAME|PATH", help="a known corpus, a text file or a folder with texts"
    )
    prepare.add_argument("--path", metavar="COPY", help="where the files of NAME are (default: data/NAME)")
    prepare.add_argument("--out", metavar="DIR", help="folder to make (default: data/NAME-TOKENS)")
    prepare.add_argument(
        "--tokens", metavar="words|bytes|characters", help="default: what NAME is known for; bytes for PATH"
    )
    prepare.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer.json of the tokenizers library, instead of --tokens"
    )
    prepare.add_argument(
        "--vocabulary", metavar="DIR|FILE", help="take the vocabulary of another prepared corpus"
    )
    prepare.add_argument("--force", action="store_true", help="replace the corpus in --out")
    check = commands.add_parser("check", help="verify a prepared corpus", **look)
    check.add_argument("folder", metavar="DIR", help="what rmt data prepare made")


def get(arguments: argparse.Namespace) -> int:
    from rmt.text.corpora import known_corpus
    from rmt.text.download import get

    known = known_corpus(arguments.name)
    folder = Path(arguments.out or known.folder)
    with progress(known.archive) as report:
        files = get(known, folder, path(arguments.path), report)
    for file in files:
        print(f"{file}  {file.stat().st_size:,} bytes")
    print(f"next: rmt data prepare {known.name}" + (f" --path {folder}" if arguments.out else ""))
    return 0


def prepare(arguments: argparse.Namespace) -> int:
    from rmt.text.corpora import find_source
    from rmt.text.prepare import prepare_corpus

    tokens, vocabulary = arguments.tokens, arguments.vocabulary
    if arguments.tokenizer is not None:
        for name, given in {"tokens": tokens, "vocabulary": vocabulary}.items():
            if given is not None:
                raise ConfigError(
                    f"{name}={given} does not go with tokenizer={arguments.tokenizer}; leave one out"
                )
        tokens, vocabulary = "tokenizer", arguments.tokenizer
    source = find_source(arguments.place, tokens, path(arguments.path))
    out = Path(arguments.out or f"data/{source.name}-{source.tokens}")
    show(prepare_corpus(source, out, path(vocabulary), arguments.force))
    return 0


def check(arguments: argparse.Namespace) -> int:
    from rmt.text.corpus import check_corpus

    show(check_corpus(Path(arguments.folder)))
    return 0


def show(corpus: Any) -> None:
    """A corpus in a line, a line per split and per note."""
    said = corpus.description
    vocabulary = f"{said['tokens']}, vocabulary {said['vocabulary']:,}, {said['dtype']}"
    print(f"{corpus.folder}: {said['name']}, {vocabulary}")
    for name, split in corpus.splits.items():
        count = len(split["documents"])
        more = f"  {count:,} documents" if count > 1 else ""
        more += f"  {split['unknown']:,} not in the vocabulary" if split["unknown"] else ""
        print(f"{name:6} {split['tokens']:12,} tokens{more}")
    for note in said["notes"]:
        print(f"note: {note}")


def path(given: str | None) -> Path | None:
    return Path(given) if given is not None else None


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function that draws how far a download is, in a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console) as shown:
        bar = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)
