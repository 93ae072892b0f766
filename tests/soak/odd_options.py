"""Odd values for every option of every command."""

import random
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice

from rmt.cli import flags
from rmt.config import Leaf
from rmt.errors import RMTError
from tests.cli.command import TINY
from tests.cli.commands import NEEDED, all_commands
from tests.soak.attempts import Attempt, attempt
from tests.soak.restored import restore
from tests.soak.workspace import FINETUNE, TINY_TEXT

# command: whole command lines that take about a second, with files of the workspace
BASES = {
    "train": [
        f"copy {TINY} --train.test_samples 8 --out out --quiet",
        f"text --data book.txt --out out {TINY_TEXT}",
    ],
    "evaluate": ["run --samples 4 --quiet --device cpu", "book-run --data book.txt --quiet --device cpu"],
    "attention": ["run --quiet --out out.html"],
    "stream": ["book-run book.txt --quiet --device cpu", "book-run book.txt --resume state --quiet"],
    "generate": ["book-run --prompt so --tokens 3 --device cpu", "run --prompt 1 --tokens 3 --device cpu"],
    "data list": [""],
    "data show": ["copy", "memory-qa --data data"],
    "data get": ["enwik8 --path book.txt --out out"],
    "data prepare": ["book.txt --out out", "splits --tokens words --out out"],
    "data check": ["corpus"],
    "runs": ["."],
    "plot": ["run -o curve.svg", "run book-run --metric loss"],
    "report": ["run"],
    "reproduce": ["figure-8 --dry_run"],
    "bench": ["--list"],
    "demo": ["--print_config"],
}
BASES_WITH_BACKBONE = {
    "finetune": [f"documents.jsonl {FINETUNE} --out out --quiet"],
    "predict": ["tuned documents.jsonl --device cpu"],
    "info": ["bert"],
}
# of these, what is valid can take for ever: a server, a budget of any length, many runs
ENDLESS = {"serve", "train.steps", "steps", "epochs", "seeds"}
# tokens to write, segments of an update, runs: one after the other; up to so many take a moment
COUNTS = {"tokens": 1000, "bptt.depth": 1000, "folds": 3}
KEEPS_FROM_WORK = {"print_config", "dry_run", "list"}  # without them a command works for minutes
# what a size can be is small, or larger than any memory: it is done at once or refused
NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "7",
        "1.5",
        "-0",
        "+3",
        "1e3",
        "1e400",
        "-1e-400",
        "nan",
        "inf",
        "-inf",
        "0x10",
        "1_0",
    ),
    *(
        "2147483648",
        "4611686018427387904",
        "9223372036854775808",
        "9" * 30,
        "9" * 5000,
        "٣",
        "½",
        " 2 ",
        "1,2",
    ),
)
TEXTS = (
    *("", " ", "none", "None", "null", "true", "off", "auto", "-", "--", ",", ",,", "a,b", "a=b", "=", ":"),
    *(
        "a:b",
        "os:path",
        "rmt:Task",
        "rmt.tasks.copy:",
        "rmt.tasks.copy:Nothing",
        "rmt.tasks.task:Task",
        "..:x",
    ),
    *("x" * 5000, "[/bold]", "[red]x", "\x1b[31m", "two\nlines", "\x00", "\udcff", "\u202e", "💥", "ä" * 300),
    *(
        "/dev/null",
        "/proc/self/mem",
        "/nonexistent/x",
        ".",
        "run",
        "book.txt",
        "run/config.yaml",
        "data",
        "bert",
    ),
    *("corpus", "corpus/train.bin", "state", "book-run", "run/checkpoints", "skip", "replace:", "replace:\n"),
    *(
        "{}",
        "[]",
        "'",
        '"',
        "\\",
        "%s",
        "{0}",
        "$HOME",
        "*",
        "?",
        "a b",
        "symbols=3",
        "length=2",
        "symbols=-1",
    ),
)


def odd_attempts(count: int, seed: int) -> Iterator[Attempt]:
    """Command lines with odd values; what one leaves behind is gone before the next."""
    with_backbone = find_spec("transformers") is not None
    for words in islice(odd_options(seed, with_backbone), count):
        yield attempt(words)
        restore()


def odd_options(seed: int, with_backbone: bool = False) -> Iterator[list[str]]:
    """Command lines without end, each with one to three odd values."""
    draw, commands = random.Random(seed), all_commands()
    bases = {name: BASES.get(name) or [least(name)] for name in commands}
    bases |= BASES_WITH_BACKBONE if with_backbone else {name: [""] for name in BASES_WITH_BACKBONE}
    while True:
        for name, lines in bases.items():
            spellings = sorted(commands[name].grammar().flags)
            words = draw.choice(lines).split()
            if words and not words[0].startswith("-") and draw.random() < 0.15:
                words[0] = draw.choice(NUMBERS + TEXTS)
            for _ in range(draw.choice((1, 1, 1, 2, 3))):
                words = with_odd_value(words, draw.choice(spellings), commands[name].grammar(), draw)
            yield [*name.split(), *words]


def least(name: str) -> str:
    """What a command cannot do without, in words of the workspace."""
    return NEEDED.get(name, "").replace("RUN", "book-run").replace("letter.txt", "book.txt")


def with_odd_value(words: list[str], spelling: str, grammar: flags.Grammar, draw: random.Random) -> list[str]:
    """The words with an odd value for one flag, in place of the one it may have."""
    leaf = grammar.flags[spelling]
    if leaf.name in ENDLESS:
        return words
    same = {other for other, its in grammar.flags.items() if its.name == leaf.name}
    kept: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.partition("=")[0] not in same:
            kept.append(word)
        elif "=" not in word and rest and not flags.is_switch(leaf):
            rest.pop(0)
    value = draw.choice(draw.choice((NUMBERS, TEXTS)))
    if is_endless(leaf, spelling, value):
        return words
    form = draw.random()
    if form < 0.7:
        return [*kept, f"{spelling}={value}"]
    return [*kept, spelling, value] if form < 0.95 else [*kept, spelling]


def is_endless(leaf: Leaf, spelling: str, value: str) -> bool:
    """Whether a value is valid and means work without end."""
    try:
        meant = flags.flagged(leaf, spelling, value).value
    except RMTError:
        return False
    is_many = isinstance(meant, int) and meant > COUNTS.get(leaf.name, meant)
    return is_many or (leaf.name in KEEPS_FROM_WORK and meant is False)
