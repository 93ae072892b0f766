"""The front end: what a command prints it reads back, and the command line goes over the file."""

import io
import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

import pytest
import yaml

from rmt.cli.front import Command, Options
from rmt.cli.main import main
from rmt.config import Interval, above, at_least, option, required
from rmt.errors import ConfigError
from tests.cli.commands import all_commands, line

COMMANDS = all_commands()
# flags beside what a command needs: each kind of value once
VARIED = {
    "demo": "--steps 7 --quiet --out folder",
    "train": "--lr 1e-5 --depth 2 --schedule sliding --seeds 3 --restart --task.options symbols=4",
    "evaluate": "--split valid --segments 2 --batch 7 --device cpu --precision 32-true --json",
    "attention": "--examples 2 -o page.html --serve --port 8000",
    "finetune": "--lr 1e-3 --memory_lr 3 --depth 1 --checkpoint --precision bf16-mixed --seeds 2 --warmup 20",
    "predict": "speech.txt --text body --precision 64-true --json",
    "info": "--memory 3 --layout causal",
    "stream": "--save state --save_every 3 --precision bf16-mixed --quiet",
    "generate": "--tokens 3 --temperature 0.5 --top_k 4 --seed 3 --stop .",
    "export": "-o model.onnx --segment_length 8 --batch 2",
    "data show": "--length 4 --segments 2 --examples 1 --split train --task.options symbols=3",
    "data get": "--out folder --path copy.zip",
    "data prepare": "--tokens words --vocabulary other --force",
    "runs": "folder other --sort value --where memory=4 --where task=copy --reverse --json",
    "plot": "run other -o curve.png --metric loss",
    "bench": "reverse --updates 3 --paths eager --growth --batch 8 --model.memory.sees_cache true",
    "reproduce": "--workers 2 --seconds 1.5 --dry_run --scale gpu --seeds 4 --backbones a,b",
    "report": "one two",
}


@dataclass(frozen=True, kw_only=True)
class TriedOptions(Options):
    """A field of every kind."""

    name: str = required("what it is called", argument="NAME")
    more: tuple[str, ...] = option((), "others", argument="MORE")
    count: int = option(3, "how many", at_least(1))
    rate: float = option(0.5, "how fast", Interval(0, 1, low_open=True))
    depth: int | Literal["full"] = option("full", "how deep", at_least(0))
    sizes: tuple[int, ...] = option((), "how large", above(0), bare=(1, 2))
    kind: Literal["apple", "pear"] | None = option(None, "which fruit")
    loud: bool = option(False, "louder")


TRIED = Command("try", "Tries the front end.", "examples:\n  rmt try x", TriedOptions, aliases={"c": "count"})


def test_every_command_declares_its_options_as_a_frozen_dataclass():
    for command in COMMANDS.values():
        assert is_dataclass(command.options)
        assert command.options.__dataclass_params__.frozen
        assert all(field.kw_only for field in fields(command.options))
        for leaf in command.leaves():
            assert leaf.help, leaf.name


@pytest.mark.covering
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("more", [False, True], ids=["plain", "varied"])
def test_what_a_command_prints_it_reads_back(capsys, monkeypatch, name, more):
    words = [*line(name), *(VARIED.get(name, "").split() if more else ())]
    assert main([*words, "--print_config"]) == 0
    printed = capsys.readouterr().out
    for source in ("-", "config.yaml"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
        with open("config.yaml", "w") as file:
            file.write(printed)
        assert main([*name.split(), "--config", source, "--print_config"]) == 0
        assert capsys.readouterr() == (printed, "")
    own = {leaf.name.partition(".")[0] for leaf in COMMANDS[name].leaves()}
    assert yaml.safe_load(printed).keys() == own or name == "bench"


def test_the_read_back_options_are_the_same_object(capsys, monkeypatch):
    for name, command in COMMANDS.items():
        words = [*line(name), *VARIED.get(name, "").split()][len(name.split()) :]
        given = command.collect(words)
        assert main([*name.split(), *words, "--print_config"]) == 0
        monkeypatch.setattr(sys, "stdin", io.StringIO(capsys.readouterr().out))
        assert command.collect(["--config", "-", "--print_config"]).options == given.options


def test_the_command_line_goes_over_the_file():
    with open("options.yaml", "w") as file:
        file.write("name: file\ncount: 7\nloud: true\nmore: [a, b]\n")
    assert TRIED.parse(["--config", "options.yaml"]) == TriedOptions(
        name="file", count=7, loud=True, more=("a", "b")
    )
    options = TRIED.parse(["line", "c", "--config", "options.yaml", "--count", "2", "--loud=false"])
    assert options == TriedOptions(name="line", more=("c",), count=2, loud=False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("x", {}),
        ("x y z", {"more": ("y", "z")}),
        ("x -c 4", {"count": 4}),
        ("x --count=4 --count 4", {"count": 4}),
        ("--loud x --rate 1e-3", {"loud": True, "rate": 1e-3}),
        ("x --sizes --loud", {"sizes": (1, 2), "loud": True}),
        ("x --sizes 3,4", {"sizes": (3, 4)}),
        ("x --depth 0 --kind pear", {"depth": 0, "kind": "pear"}),
        ("x --kind none", {}),
        ("x -- --odd -name", {"more": ("--odd", "-name")}),
        ("x -", {"more": ("-",)}),
    ],
)
def test_words_are_values(words, expected):
    assert TRIED.parse(words.split()) == TriedOptions(name="x", **expected)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "NAME is missing: what it is called; see rmt try --help"),
        ("x --cuont 4", "unknown argument '--cuont'; did you mean '--count'?"),
        ("x -z", "unknown argument '-z'; see rmt try --help"),
        ("x --count", "--count expected one argument: how many; see rmt try --help"),
        ("x --count --loud", "--count expected one argument: how many; see rmt try --help"),
        ("x --count 0", "count=0 must be at least 1"),
        ("x --count 2.5", "count='2.5' is not a whole number"),
        ("x --rate 0", "rate=0.0 must be above 0 and at most 1"),
        ("x --rate nan", "rate=nan must be finite"),
        ("x --depth -1", "depth=-1 must be at least 0"),
        ("x --sizes 1,x", "sizes='1,x' is not a list of whole numbers, such as 2,4"),
        ("x --sizes 1,0", "sizes=0 must be above 0"),
        ("x --kind aple", "kind='aple' is not one of: apple, pear, none; did you mean 'apple'?"),
        ("x --loud=maybe", "loud='maybe' is not true or false"),
        ("x --count 1 -c 2", "--count 1 and -c 2 are two values of count; leave one out"),
        ("x --loud --loud=off", "--loud true and --loud false are two values of loud; leave one out"),
        ("x --config a --config b", "--config a and --config b are two values of config; leave one out"),
    ],
)
def test_a_mistake_is_named(words, line):
    with pytest.raises(ConfigError) as caught:
        TRIED.parse(words.split())
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: 7", "name=7 is not text"),
        ("more: a", "more='a' is not a list of texts, such as [a, b]"),
        ("more: [1]", "more=1 is not text"),
        ("count: 2.0", "count=2.0 is not a whole number"),
        ("count: true", "count=True is not a whole number"),
        ("rate: .inf", "rate=inf must be finite"),
        ("loud: maybe", "loud='maybe' is not true or false"),
        ("cuont: 2", "unknown key 'cuont'; did you mean 'count'?"),
        ("config: x", "unknown key 'config'; choose from: count, depth, kind, loud, more, name, rate, sizes"),
        (
            "count: 2\ncount: 3",
            "config file 'options.yaml' has the key 'count' twice, in lines 1 and 2; leave one out",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named(text, line):
    with open("options.yaml", "w") as file:
        file.write(text)
    with pytest.raises(ConfigError) as caught:
        TRIED.parse(["x", "--config", "options.yaml"])
    assert str(caught.value) == line


def test_a_short_form_in_a_file_is_answered_with_its_dotted_name(capsys):
    with open("options.yaml", "w") as file:
        file.write("lr: 0.1")
    assert main(["train", "copy", "--config", "options.yaml"]) == 2
    assert capsys.readouterr().err == "rmt: unknown key 'lr'; did you mean 'optimizer.lr'?\n"


def test_numbers_are_numbers_however_yaml_writes_them():
    with open("options.yaml", "w") as file:
        file.write("name: x\nrate: 1e-3\ndepth: 4\nsizes: [3]\n")
    assert TRIED.parse(["--config", "options.yaml"]) == TriedOptions(name="x", rate=1e-3, depth=4, sizes=(3,))


def test_standard_input_is_taken_once(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("run: RUN\nfile: '-'\n"))
    assert main(["stream", "--config", "-"]) == 2
    line = "rmt: file=- and config=- would both take standard input; name a file for one of them\n"
    assert capsys.readouterr().err == line


def test_options_built_by_hand_are_checked_too():
    with pytest.raises(ConfigError, match=r"^count=0 must be at least 1$"):
        TriedOptions(name="x", count=0)
    with pytest.raises(ConfigError, match=r"^rate='fast' is not a number$"):
        TriedOptions(name="x", rate="fast")


def test_the_help_has_every_field_its_values_and_its_default(capsys):
    assert TRIED.parse(["--help"]) is None
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("usage: rmt try NAME [MORE ...] [OPTIONS] Tries the front end.")
    for part in (
        "NAME what it is called",
        "-c, --count COUNT how many (default: 3)",
        "--rate RATE how fast (default: 0.5)",
        "--depth DEPTH|full how deep (default: full)",
        "--sizes [SIZES] how large",
        "--kind apple|pear which fruit",
        "--loud louder --config",
        "examples: rmt try x",
    ):
        assert part in text
