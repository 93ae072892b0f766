"""Damage to files that the commands open, as strangers, transfers and disks do it."""

import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

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
        10**400,
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


def changes_of(name: str) -> list[Change]:
    """What can be done to a file of this name."""
    if name.endswith(".yaml"):
        return BYTES + YAML
    return BYTES + JSON if name.endswith((".json", ".jsonl")) else BYTES
