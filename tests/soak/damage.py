"""Damage to files that the commands open, as strangers, transfers and disks do it."""

import json
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        10**30,
        1e308,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\x1b[31m",
        "[/b]",
    ),
    *([], {}, [[]], [None], {"a": 1}, "x" * 10_000, "\udcff", "os:path", [1, "a"], [0] * 100),
)


class Damage(NamedTuple):
    """A file of the workspace, what is done to it, and a command that opens it."""

    file: Path
    kind: str
    content: bytes
    words: list[str]


# files, and command lines that open them
OPENED: dict[str, list[str]] = {
    "run/config.yaml": ["evaluate run --samples 4 --quiet", "runs .", "generate run --prompt 1 --tokens 2"],
    "run/result.json": ["runs .", "report run", "TRAIN"],
    "run/task.json": ["generate run --prompt 1 --tokens 2", "attention run --quiet --out out.html"],
    "run/vocabulary.json": ["generate run --prompt 1 --tokens 2", "attention run --quiet --out out.html"],
    "run/metrics.jsonl": ["TRAIN --restart", "runs ."],
    "book-run/vocabulary.json": [
        "stream book-run book.txt --quiet",
        "evaluate book-run --data book.txt --quiet",
    ],
    "state": [
        "stream book-run book.txt --resume state --quiet",
        "generate book-run --resume state --tokens 2",
    ],
    "corpus/corpus.json": ["data check corpus", "train text --data corpus TEXT"],
    "corpus/vocabulary.json": ["data check corpus", "train text --data corpus TEXT"],
    "splits/train.txt": ["data prepare splits --out out", "train text --data splits --tokens words TEXT"],
    "data/babi/qa1_single-supporting-fact_train.txt": ["data show memory-qa --data data --split train"],
    "data/babi/qa1_single-supporting-fact_test.txt": ["data show memory-qa --data data"],
    "data/books/Whale_1.txt": ["data show memory-qa --data data"],
    "options.yaml": ["demo --config options.yaml --print_config", "train copy --config options.yaml TINY"],
    "documents.jsonl": ["predict tuned documents.jsonl --device cpu", "finetune documents.jsonl FINETUNE"],
    "documents.csv": ["predict tuned documents.csv --device cpu", "finetune documents.csv FINETUNE"],
    "documents.json": ["predict tuned documents.json --device cpu", "finetune documents.json FINETUNE"],
    "tokenizer.json": ["data prepare book.txt --tokenizer tokenizer.json --out out"],
    "book.txt.gz": ["data prepare book.txt.gz --out out", "stream book-run book.txt.gz --quiet"],
    "book.txt.xz": ["data prepare book.txt.xz --out out", "stream book-run book.txt.xz --quiet"],
    "results.jsonl": ["report results.jsonl"],
    "tuned/config.yaml": [
        "predict tuned documents.jsonl --device cpu",
        "runs .",
        "finetune documents.jsonl FINETUNE",
    ],
    "tuned/model/config.json": ["predict tuned documents.jsonl --device cpu"],
    "tuned/model/tokenizer.json": ["predict tuned documents.jsonl --device cpu"],
    "tuned/model/tokenizer_config.json": ["predict tuned documents.jsonl --device cpu"],
    "tuned/model/model.safetensors": ["predict tuned documents.jsonl --device cpu"],
    "tuned/result.json": ["runs .", "report tuned", "finetune documents.jsonl FINETUNE"],
    "bert/config.json": ["info bert", "finetune documents.jsonl FINETUNE"],
    "bert/tokenizer.json": ["finetune documents.jsonl FINETUNE"],
    "bert/model.safetensors": ["finetune documents.jsonl FINETUNE"],
}


def damages(seed: int) -> Iterator[Damage]:
    """Damages without end, to every file that is there in turn."""
    draw = random.Random(seed)
    contents = {name: Path(name).read_bytes() for name in OPENED if Path(name).is_file()}
    while True:
        for name, content in contents.items():
            kinds = [*BYTES, *(JSON if name.endswith((".json", ".jsonl")) else ())]
            if name.endswith(".yaml"):
                kinds += YAML
            kind = draw.choice(kinds)
            for line in OPENED[name]:
                yield Damage(Path(name), kind.__name__, kind(content, draw), command(line))


def command(line: str) -> list[str]:
    """The words of a command line with what the workspace was made with."""
    from tests.cli.command import TINY
    from tests.soak.workspace import FINETUNE, TINY_TEXT

    line = line.replace("TRAIN", "train copy TINY --out run --quiet").replace(
        "TEXT", f"{TINY_TEXT} --out out"
    )
    out = "--out tuned --quiet" if "documents.jsonl" in line else "--out out --quiet"
    line = line.replace("FINETUNE", f"{FINETUNE} {out}")
    return line.replace("TINY", TINY if "--out" in line else f"{TINY} --out out --quiet").split()


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def emptied(content: bytes, draw: random.Random) -> bytes:
    return b""


def zeroed(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content) + 1)
    return content[:start] + bytes(len(content) - start)


def flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 4, 30))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def inserted(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content) + 1)
    piece = draw.choice(
        (b"\0", b"\xff\xfe", b"\n", b"\t", b"\r\n", b"\x1b[31m", b'"', b"{", b"- ", b"9" * 5000)
    )
    return content[:place] + piece + content[place:]


def doubled(content: bytes, draw: random.Random) -> bytes:
    return content + content


def shuffled_lines(content: bytes, draw: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def without_lines(content: bytes, draw: random.Random) -> bytes:
    return b"".join(line for line in content.splitlines(keepends=True) if draw.random() < 0.6)


def random_bytes(content: bytes, draw: random.Random) -> bytes:
    return draw.randbytes(draw.choice((1, 8, 100, 5000)))


def huge_size(content: bytes, draw: random.Random) -> bytes:
    """A size field at the start that the file does not hold, as that of safetensors."""
    return draw.choice((2**62, 2**40, 2**31)).to_bytes(8, "little") + content[8:]


def other_value(content: bytes, draw: random.Random) -> bytes:
    """A value somewhere in a JSON replaced by an odd one; of JSON lines, in one of them."""
    lines = content.decode().splitlines() if content.count(b"\n{") else [content.decode()]
    number = draw.randrange(len(lines))
    tree = replaced(json.loads(lines[number]), draw)
    lines[number] = json.dumps(tree)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def other_key(content: bytes, draw: random.Random) -> bytes:
    """A key of a JSON left out or renamed."""
    tree = json.loads(content.decode().splitlines()[0] if content.count(b"\n{") else content)
    if isinstance(tree, dict) and tree:
        value = tree.pop(draw.choice(sorted(tree)))
        if draw.random() < 0.5:
            tree[draw.choice(("x", "", "format", "tokens"))] = value
    return json.dumps(tree).encode()


def deep_json(content: bytes, draw: random.Random) -> bytes:
    levels = draw.choice((50, 2000, 100_000))
    return draw.choice((b"[", b'{"a":')) * levels


def replaced(tree: Any, draw: random.Random) -> Any:
    """The tree with one value in it replaced."""
    if isinstance(tree, dict) and tree and draw.random() < 0.85:
        key = draw.choice(sorted(tree))
        return {**tree, key: replaced(tree[key], draw)}
    if isinstance(tree, list) and tree and draw.random() < 0.7:
        place = draw.randrange(len(tree))
        return [*tree[:place], replaced(tree[place], draw), *tree[place + 1 :]]
    return draw.choice(VALUES)


def odd_yaml(content: bytes, draw: random.Random) -> bytes:
    """A line of YAML with another value."""
    lines = content.decode().splitlines()
    number = draw.randrange(len(lines))
    odd = (
        "&a 1",
        "*a",
        "!!python/object:x",
        "[",
        "{",
        "2020-13-45",
        "!!binary x",
        "1e999",
        "~",
        "<<",
        "'",
        "[1, {}]",
    )
    lines[number] = (
        lines[number].partition(":")[0] + ": " + draw.choice((*odd, "9" * 5000, '"\\e[31m"', "0o17", "1:30"))
    )
    return "\n".join(lines).encode()


def yaml_laughs(content: bytes, draw: random.Random) -> bytes:
    levels = "abcdefghij"
    lines = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise(levels)]
    return "\n".join(["a: &a [x]", *lines]).encode()


Change = Callable[[bytes, random.Random], bytes]
BYTES: list[Change] = [
    *(
        cut,
        emptied,
        zeroed,
        flipped,
        inserted,
        doubled,
        shuffled_lines,
        without_lines,
        random_bytes,
        huge_size,
    ),
]
JSON: list[Change] = [other_value, other_value, other_value, other_value, other_key, other_key, deep_json]
YAML: list[Change] = [odd_yaml, odd_yaml, odd_yaml, odd_yaml, yaml_laughs]
