"""`rmt data get|prepare|check`: corpora for language modelling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rmt.cli.front import Command, Options
from rmt.cli.terminal import console
from rmt.config import option, required
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt data list
  rmt data show copy --segments 3 --length 8
  rmt data show quadratic --examples 2
  rmt data show text --data book.txt
  rmt data get wikitext-2
  rmt data prepare wikitext-2
  rmt data prepare my-books/ --tokens characters --out data/books
  rmt data check data/books"""


@dataclass(frozen=True, kw_only=True)
class GetOptions(Options):
    """The options of `rmt data get`."""

    name: str = required("wikitext-2, wikitext-103, enwik8, enwik8-204 or text8", argument="NAME")
    out: str | None = option(None, "folder for its files; none = data/NAME")
    path: str | None = option(None, "a copy of the zip archive, instead of downloading it")
    quiet: bool = option(False, "no progress bar")


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(Options):
    """The options of `rmt data prepare`."""

    source: str = required("a known corpus, a text file or a folder with texts", argument="NAME|PATH")
    path: str | None = option(None, "where the files of NAME are; none = data/NAME")
    out: str | None = option(None, "folder to make; none = data/NAME-TOKENS")
    tokens: Literal["words", "bytes", "characters"] | None = option(
        None, "kind of token; none = what NAME is known for, and bytes for PATH"
    )
    tokenizer: str | None = option(None, "a tokenizer.json of the tokenizers library, instead of --tokens")
    vocabulary: str | None = option(None, "folder or file: take the vocabulary of another prepared corpus")
    force: bool = option(False, "replace the corpus in --out")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """The options of `rmt data check`."""

    folder: str = required("what rmt data prepare made", argument="DIR")


def get(options: GetOptions) -> int:
    from rmt.text.corpora import known_corpus
    from rmt.text.download import get

    known = known_corpus(options.name)
    folder = Path(options.out or known.folder)
    with progress(known.archive, options.quiet) as report:
        files = get(known, folder, path(options.path), report)
    for file in files:
        print(f"{file}  {file.stat().st_size:,} bytes")
    print(f"next: rmt data prepare {known.name}" + (f" --path {folder}" if options.out else ""))
    return 0


def prepare(options: PrepareOptions) -> int:
    from rmt.text.corpora import find_source
    from rmt.text.places import prepare_usual, usual_folder
    from rmt.text.prepare import prepare_corpus

    tokens: str | None = options.tokens
    vocabulary = options.vocabulary
    if options.tokenizer is not None:
        for name, value in {"tokens": tokens, "vocabulary": vocabulary}.items():
            if value is not None:
                raise ConfigError(
                    f"{name}={value} does not go with tokenizer={options.tokenizer}; leave one out"
                )
        tokens, vocabulary = "tokenizer", options.tokenizer
    source = find_source(options.source, tokens, path(options.path))
    prepare_in = prepare_usual if options.out is None else prepare_corpus
    out = path(options.out) or usual_folder(source)
    show(prepare_in(source, out, path(vocabulary), options.force))
    return 0


def check(options: CheckOptions) -> int:
    from rmt.text.corpus import check_corpus

    show(check_corpus(Path(options.folder)))
    return 0


COMMANDS = (
    Command("data get", "Download a known corpus.", EXAMPLES, GetOptions),
    Command("data prepare", "Turn a corpus or your own text into token files.", EXAMPLES, PrepareOptions),
    Command("data check", "Verify a prepared corpus.", EXAMPLES, CheckOptions),
)
RUN: dict[str, Callable[[Any], int]] = {"get": get, "prepare": prepare, "check": check}


def show(corpus: Any) -> None:
    """A corpus in a line, a line per split and per note."""
    described = corpus.description
    vocabulary = f"{described['tokens']}, vocabulary {described['vocabulary']:,}, {described['dtype']}"
    print(f"{corpus.folder}: {described['name']}, {vocabulary}")
    for name, split in corpus.splits.items():
        count = len(split["documents"])
        more = f"  {count:,} documents" if count > 1 else ""
        more += f"  {split['unknown']:,} not in the vocabulary" if split["unknown"] else ""
        print(f"{name:6} {split['tokens']:12,} tokens{more}")
    for note in described["notes"]:
        print(f"note: {note}")


def path(name: str | None) -> Path | None:
    return Path(name) if name is not None else None


@contextmanager
def progress(label: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function that draws how far a download is, in a terminal, unless that is to be quiet."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    terminal = console(stderr=True)
    if quiet or not terminal.is_terminal:
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=terminal) as shown:
        bar = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(bar, completed=done, total=total or None)
