"""Files that the commands open, damaged: which command opens which file, and what must come of it."""

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.cli.command import TINY, TRAIN
from tests.soak.attempts import Attempt, attempt
from tests.soak.damage import changes_of
from tests.soak.restored import restore
from tests.soak.workspace import FINETUNE, TINY_TEXT

GENERATE = "generate run --prompt 1 --tokens 2 --seed 1"
PREDICT = "predict tuned documents.jsonl --device cpu"
TUNE = f"finetune documents.jsonl {FINETUNE} --out tuned --quiet"
TUNE_ANEW = f"finetune FILE {FINETUNE} --out out --quiet"
TRAIN_TEXT = f"train text --data DATA {TINY_TEXT} --out out"
# files whose content is proven by checksums: what is damaged in them is never taken for whole
SEALED = {
    "run/**/*": [
        "evaluate run --samples 4 --quiet",
        GENERATE,
        "attention run --quiet --out out.html",
        "runs .",
        "report run",
    ],
    "untested/**/*": [f"{TRAIN} --out untested --quiet"],
    "book-run/**/*": ["stream book-run book.txt --quiet", "evaluate book-run --data book.txt --quiet"],
    "state": [
        "stream book-run book.txt --resume state --quiet",
        "generate book-run --resume state --tokens 2 --seed 1",
    ],
    "tuned/*": [PREDICT, "runs .", "report tuned", TUNE],
    "corpus/*": ["data check corpus", TRAIN_TEXT.replace("DATA", "corpus")],
}
# what users and other programs write: it may say anything
OPEN = {
    "run/metrics.jsonl": [
        "plot run -o curve.svg",
        "runs .",
        f"train copy {TINY} --out run --quiet --restart",
    ],
    "splits/train.txt": [
        "data prepare splits --out out",
        TRAIN_TEXT.replace("DATA", "splits --tokens words"),
    ],
    "data/babi/*.txt": ["data show memory-qa --data data --split train", "data show memory-qa --data data"],
    "data/books/*.txt": ["data show memory-qa --data data"],
    "options.yaml": [
        "demo --config options.yaml --print_config",
        f"train copy --config options.yaml {TINY} --out out --quiet",
    ],
    "documents.*": ["predict tuned FILE --device cpu", TUNE_ANEW],
    "tokenizer.json": ["data prepare book.txt --tokenizer tokenizer.json --out out"],
    "book.txt.*": ["data prepare FILE --out out", "stream book-run FILE --quiet"],
    "results.jsonl": ["report results.jsonl"],
    "cells.jsonl": ["report cells.jsonl", "report cells.jsonl --html out.html --latex out.tex"],
    "tuned/model/*": [PREDICT],
    "bert/*": ["info bert", TUNE_ANEW.replace("FILE", "documents.jsonl")],
}
TIMES = re.compile(r"\d[\d,.]* ?(s|min|bytes/s|tokens/s|ms)\b|\d{4}-\d\d-\d\d[ T][\d:]+")
TOLD = re.compile(r"damaged|passed over|going back|cannot be|does not|is not|no checkpoint")


class Damage(NamedTuple):
    """A file of the workspace, what is done to it, and a command that opens it."""

    file: Path
    kind: str
    content: bytes
    line: str
    is_sealed: bool


def damages(seed: int) -> Iterator[Damage]:
    """Damages without end, to every file that is there in turn, in any order."""
    draw = random.Random(seed)
    lines = {
        file: (commands, table is SEALED)
        for table in (SEALED, OPEN)
        for pattern, commands in table.items()
        for file in sorted(Path().glob(pattern))
        if file.is_file()
    }
    contents = {file: file.read_bytes() for file in lines}
    while True:
        for file in draw.sample(sorted(lines), len(lines)):
            change, (commands, is_sealed) = draw.choice(changes_of(file.name)), lines[file]
            damaged = change(contents[file], draw) if contents[file] else draw.randbytes(9)
            line = draw.choice(commands).replace("FILE", str(file))
            yield Damage(file, change.__name__, damaged, line, is_sealed)


def damaged_attempts(count: int, seed: int) -> Iterator[Attempt]:
    """Commands on damaged files, each of which is whole again before the next."""
    from rmt.tasks.babi import open_library

    for _, damage in zip(range(count), damages(seed), strict=False):
        expected = output_of(damage.line) if damage.is_sealed else ""
        damage.file.write_bytes(damage.content)
        open_library.cache_clear()
        result = attempt(damage.line.split())
        if damage.is_sealed and is_wrong(result, expected):
            result = result._replace(outcome="wrong", detail=f"{result.output!r}, whole {expected!r}")
        yield result._replace(detail=f"{damage.file} {damage.kind}: {result.detail}")
        restore(damage.file, "run", "untested", "tuned", "book-run")


@lru_cache
def output_of(line: str) -> str:
    """What a command prints where all is whole, without times."""
    result = attempt(line.split())
    restore("run", "untested", "book-run")
    if result.outcome != "done":
        raise RuntimeError(f"rmt {line}: {result.detail}")
    return TIMES.sub("", result.output)


def is_wrong(result: Attempt, expected: str) -> bool:
    """Whether a command ended well, with another output, and told nothing of damage."""
    is_other = result.outcome == "done" and TIMES.sub("", result.output) != expected
    return is_other and not TOLD.search(result.output + result.detail)
