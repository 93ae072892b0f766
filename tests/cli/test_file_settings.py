"""A config file that another recipe, size or scale filled in does not pass for that of the command line."""

from functools import reduce
from pathlib import Path

import pytest
import yaml

from tests.cli.command import TRAIN, printed, rmt

DECIDED_BY_BOTH = ("optimizer.name", "rate.schedule", "train.steps", "model.norm")


def complete(capsys, options: str) -> dict:
    """The settings in full.yaml, a whole configuration as a command prints it."""
    Path("full.yaml").write_text(rmt(capsys, f"train {options} --print_config").out)
    return yaml.safe_load(Path("full.yaml").read_text())


@pytest.mark.parametrize("model", ["rmt", "baseline", "transformer_xl"])
@pytest.mark.parametrize(
    ("recipe", "other"), [("modern-2", "paper"), ("paper", "modern-1"), ("paper", "modern")]
)
def test_settings_that_one_recipe_decided_are_refused_under_the_name_of_another(capsys, recipe, other, model):
    complete(capsys, f"copy --model {model} --recipe {recipe}")
    code, out, err = rmt(capsys, f"train --config full.yaml --recipe {other} --print_config")
    named = "modern-2" if other == "modern" else other
    assert (code, out, err.count("\n")) == (2, "", 1)
    decided = f"has settings that recipe={recipe} decided, not recipe={named}: "
    assert err.startswith(f"rmt: config='full.yaml' {decided}")
    assert err.endswith("; leave --recipe out, or take these settings out of the file\n")
    assert all(name in err for name in DECIDED_BY_BOTH)
    assert not {"task.length", "model.layers", "seed"} & set(err.replace(",", "").split())


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ("copy --model baseline", "--size paper"),
        ("text --data book.txt --size enwik8-base --scale gpu", "--scale cpu"),
    ],
    ids=["size", "scale"],
)
def test_nor_do_settings_of_another_size_or_scale_pass(capsys, options, flag):
    Path("book.txt").write_text("It was the best of times. " * 99)
    complete(capsys, options)
    code, out, err = rmt(capsys, f"train --config full.yaml {flag} --print_config")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f" decided, not {flag.removeprefix('--').replace(' ', '=')}: " in err
    assert "model.layers" in err
    assert f"; leave {flag.split()[0]} out, or take" in err


@pytest.mark.parametrize("recipe", ["modern", "modern-2"])
def test_two_names_of_one_recipe_are_one_recipe(capsys, recipe):
    complete(capsys, "copy --model baseline")
    assert printed(capsys, f"train --config full.yaml --recipe {recipe}").recipe == "modern-2"
    Path("few.yaml").write_text("recipe: modern\ntrain: {steps: 2000}\n")
    assert printed(capsys, f"train copy --config few.yaml --recipe {recipe}").train.steps == 2000


def test_settings_that_a_user_wrote_stay_under_another_recipe(capsys):
    Path("few.yaml").write_text("recipe: paper\nmodel: {dropout: 0.3}\ntrain: {steps: 50}\nsize: small\n")
    config = printed(capsys, "train copy --config few.yaml --recipe modern")
    assert (config.recipe, config.model.dropout, config.train.steps) == ("modern-2", 0.3, 50)
    assert config.model.norm == "pre"
    Path("few.yaml").write_text("model: {norm: pre}\ntask: {name: copy}\n")
    config = printed(capsys, "train --config few.yaml --recipe paper")
    assert (config.recipe, config.model.norm, config.model.dropout) == ("paper", "pre", 0.1)


def test_the_remedies_are_remedies(capsys):
    settings = complete(capsys, "copy --model baseline")
    err = rmt(capsys, "train --config full.yaml --recipe paper").err
    for name in err.partition("recipe=paper: ")[2].partition(";")[0].split(", "):
        *groups, last = name.split(".")
        del reduce(lambda group, part: group[part], groups, settings)[last]
    Path("fewer.yaml").write_text(yaml.safe_dump(settings))
    kept = printed(capsys, "train --config fewer.yaml --recipe paper")
    assert kept == printed(capsys, "train copy --model baseline --recipe paper")
    assert printed(capsys, "train --config full.yaml") == printed(capsys, "train copy --model baseline")


def test_what_the_command_line_names_is_not_the_files(capsys):
    Path("few.yaml").write_text("recipe: paper\noptimizer: {lr: 1e-4}\n")
    config = printed(capsys, "train copy --config few.yaml --recipe modern --lr 1e-4")
    assert (config.recipe, config.optimizer.lr) == ("modern-2", 1e-4)


def test_a_size_that_does_not_go_with_the_task_of_the_line_decided_nothing(capsys):
    Path("few.yaml").write_text("size: enwik8-base\ntrain: {batch: 64}\n")
    assert printed(capsys, "train copy --config few.yaml --size small").train.batch == 64


def test_the_configuration_of_a_run_is_no_other_recipes_either(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    code, _, err = rmt(capsys, "train --config run/config.yaml --recipe paper --out again")
    assert code == 2
    assert "config='run/config.yaml' has settings that recipe=modern-2 decided, not recipe=paper: " in err
    assert not Path("again").exists()


def test_a_measurement_is_not_called_another_recipes_either(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    code, _, err = rmt(capsys, "bench --config run/config.yaml --recipe paper --updates 1")
    assert code == 2
    assert "config='run/config.yaml' has settings that recipe=modern-2 decided, not recipe=paper: " in err
