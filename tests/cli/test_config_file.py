"""Every command takes its options from a YAML file, and prints them."""

import pytest
import yaml

from tests.cli.command import rmt


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("demo", "steps", 7),
        ("evaluate some/run", "samples", 5),
        ("attention some/run", "examples", 2),
        ("runs", "sort", "value"),
        ("report", "results", ["a"]),
    ],
    ids=["demo", "evaluate", "attention", "runs", "report"],
)
def test_a_command_prints_its_options(capsys, command, option, value):
    given = "a" if option == "results" else f"--{option} {value}"
    code, out, err = rmt(capsys, f"{command} {given} --print_config")
    assert (code, err) == (0, "")
    assert yaml.safe_load(out)[option] == value


def test_options_come_from_the_file_unless_the_command_line_names_them(capsys, tmp_path):
    (tmp_path / "options.yaml").write_text("steps: 7\nquiet: true\n")
    _, out, _ = rmt(capsys, f"demo --config {tmp_path}/options.yaml --steps 9 --print_config")
    assert yaml.safe_load(out) | {"steps": 9, "quiet": True} == yaml.safe_load(out)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 7\n", "rmt: unknown key 'stepz'; did you mean 'steps'?\n"),
        ("steps: [7]\n", "rmt: steps=[7] is not a whole number\n"),
        ("steps: many\n", "rmt: steps='many' is not a whole number\n"),
    ],
    ids=["unknown key", "list", "not a number"],
)
def test_a_mistake_in_the_file_is_one_line(capsys, tmp_path, text, message):
    (tmp_path / "options.yaml").write_text(text)
    code, out, err = rmt(capsys, f"demo --config {tmp_path}/options.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
