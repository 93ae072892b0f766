"""Wrong values without end: what a field does not declare is refused in one line, in YAML and as a flag."""

import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import pytest
import yaml

from rmt import errors
from rmt.cli import flags
from rmt.cli.main import main
from rmt.config import Interval, Leaf, choices
from rmt.yamlfile import write_yaml
from tests.cli.command import Answer
from tests.cli.commands import all_commands, line

COMMANDS = all_commands()
SEED, FURTHER_SEEDS = 14, (15, 16, 17)
REMEDY = re.compile(
    r"must be|is not (a |an |one of|true|text|\S+ or )|needs|leave|choose|give|use|KEY=VALUE|effect"
)
NOT_A_LEAF = {"a": 1}


class Wrong(NamedTuple):
    """A value that a field must refuse."""

    command: str
    leaf: Leaf
    value: Any
    flag: str = ""  # its spelling; empty: the value stands in a YAML file


def wrong_values(name: str, seed: int = SEED) -> Iterator[Wrong]:
    """A random value of every wrong kind, for every field of a command."""
    command, draw = COMMANDS[name], random.Random(f"{seed} {name}")
    spelled: dict[str, list[str]] = {}
    for spelling, leaf in command.grammar().flags.items():
        spelled.setdefault(leaf.name, []).append(spelling)
    for leaf in command.leaves():
        for value in (*of_another_type(leaf, draw), *beyond(leaf, draw)):
            yield Wrong(name, leaf, value)
        for spelling in spelled.get(leaf.name, ()):
            for text in (*words_of_another_type(leaf, draw), *map(str, beyond(leaf, draw))):
                yield Wrong(name, leaf, text, spelling)


def of_another_type(leaf: Leaf, draw: random.Random) -> Iterator[Any]:
    """What YAML can hold and the type of a field does not."""
    kinds = set(choices(leaf.type)) | {get_origin(kind) for kind in choices(leaf.type)}
    number = draw.uniform(-9, 9) + 0.01
    samples = {
        bool: draw.choice([True, False]),
        int: draw.randint(-99, 99),
        float: number if number != round(number) else 0.5,
        str: "".join(draw.choices("qxzvw", k=draw.randint(1, 8))),
        type(None): None,
        tuple: [draw.choice([{"b": 2}, [1], None])],
        dict: dict(NOT_A_LEAF),
    }
    for kind, sample in samples.items():
        is_number = kind is int and float in kinds
        if not (is_number or (kind in kinds and kind is not tuple)):
            yield sample
    if tuple in kinds:
        yield [draw.choice([True, None, {"c": 3}])]


def words_of_another_type(leaf: Leaf, draw: random.Random) -> Iterator[str]:
    """Words that the type of a field is not; every word is a text."""
    kinds = set(choices(leaf.type))
    if str in kinds or (flags.is_list(leaf) and get_args(leaf.type)[0] is str):
        return
    yield "".join(draw.choices("qxzvw", k=draw.randint(1, 8)))
    if flags.is_list(leaf):
        yield f"{draw.randint(1, 9)},,{draw.randint(1, 9)}"
        return
    if not flags.is_mapping(leaf):
        yield ""
    if float not in kinds and not flags.is_mapping(leaf):
        yield f"{draw.randint(0, 9)}.{draw.randint(1, 9)}"
    if bool not in kinds and not flags.is_mapping(leaf):
        yield draw.choice(["true", "False"])


def beyond(leaf: Leaf, draw: random.Random) -> Iterator[float]:
    """Numbers outside the bounds of a field, or too large for any."""
    kinds = set(choices(leaf.type)) | set(get_args(leaf.type))
    if not {int, float} & kinds:
        return
    whole, bounds = float not in kinds, leaf.within or Interval()
    yield draw.randint(2**63, 2**80) if whole else draw.choice([10**400, "1e400"])
    if math.isfinite(bounds.low):
        distance = draw.randint(1, 99) if whole else draw.uniform(0.01, 99)
        yield bounds.low - distance
        if bounds.low_open:
            yield bounds.low
    if math.isfinite(bounds.high):
        yield bounds.high + (draw.randint(1, 99) if whole else draw.uniform(0.01, 99))
        if bounds.high_open:
            yield bounds.high
    if not whole:
        yield from (math.nan, math.inf, -math.inf)


WRONG = {name: list(wrong_values(name)) for name in COMMANDS}
WITH_VALUES = pytest.mark.parametrize("name", [name for name in WRONG if name != "data list"])


@WITH_VALUES
def test_a_wrong_value_is_refused_in_one_line_with_field_value_and_remedy(capsys, tmp_path, name):
    assert_refused(WRONG[name], capsys, tmp_path)


@pytest.mark.slow
@WITH_VALUES
@pytest.mark.parametrize("seed", FURTHER_SEEDS)
def test_so_are_other_wrong_values(capsys, tmp_path, name, seed):
    assert_refused(list(wrong_values(name, seed)), capsys, tmp_path)


def assert_refused(values: list[Wrong], capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Each of the values is refused, and nothing is written."""
    passed = [
        (wrong, answer) for wrong in values if not is_refused(wrong, answer := answer_to(wrong, capsys))
    ]
    assert passed == []
    assert {path.name for path in folder.iterdir()} <= {"wrong.yaml"}


def test_there_are_more_than_a_thousand_wrong_values_over_every_field_of_yaml_and_flags():
    assert sum(map(len, WRONG.values())) >= 1000
    for name, command in COMMANDS.items():
        in_files = {wrong.leaf.name for wrong in WRONG[name] if not wrong.flag}
        assert in_files == {leaf.name for leaf in command.leaves()}


def answer_to(wrong: Wrong, capsys: pytest.CaptureFixture[str]) -> Answer:
    return Answer(main(words(wrong)), *capsys.readouterr())


def is_refused(wrong: Wrong, answer: Answer) -> bool:
    """Whether it is exit code 2 and one line with the field, the value and a remedy."""
    is_line = (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    has_field = bool(names(wrong) & set(re.findall(r"\w+", answer.err)))
    has_value = any(text in answer.err for text in shown(wrong))
    return is_line and has_field and has_value and bool(REMEDY.search(answer.err))


def words(wrong: Wrong) -> list[str]:
    """The command line with a wrong value in it, or with a file that has it."""
    kept = without(line(wrong.command), wrong.leaf)
    if wrong.flag:
        return [*kept, f"{wrong.flag}={wrong.value}"]
    nested: Any = wrong.value
    for part in reversed(wrong.leaf.name.split(".")):
        nested = {part: nested}
    with open("wrong.yaml", "w") as file:
        file.write(write_yaml(nested))
    return [*kept, "--config", "wrong.yaml"]


def without(words: list[str], leaf: Leaf) -> list[str]:
    """A command line without the flag of a field, or without all that is given without a flag."""
    kept = list[str]()
    command = 2 if words[0] == "data" else 1
    rest = words[command:]
    while rest:
        size = 2 if rest[0].startswith("--") else 1
        group, rest = rest[:size], rest[size:]
        kept += [] if group[0] == f"--{leaf.name}" or (leaf.argument and size == 1) else group
    return words[:command] + kept


def names(wrong: Wrong) -> set[str]:
    """The names that a message may call a field by: its own, without its group, or a short form."""
    short = [alias for alias, name in COMMANDS[wrong.command].aliases.items() if name == wrong.leaf.name]
    return {wrong.leaf.name.rsplit(".", 1)[-1], *short}


def shown(wrong: Wrong) -> set[str]:
    """How a message may show a value: as it was written, as it was understood, or the item that is wrong."""
    value = yaml.safe_load(write_yaml({"value": wrong.value}))["value"] if not wrong.flag else wrong.value
    texts = {str(value), repr(value), errors.shown(value)}
    if isinstance(value, list):
        texts |= {repr(item) for item in value} | {repr(tuple(value))}
    for kind in (int, float):
        try:
            texts.add(str(kind(value)))
        except (TypeError, ValueError, OverflowError):
            continue
    return texts
