"""The configuration in a run folder has a format: within it nothing may be missing."""

import math

import pytest
import yaml

from rmt.errors import CheckpointError, ConfigError
from rmt.train.config import RunConfig
from rmt.train.folder import FIELDS, reason_no_result
from rmt.train.stored import FORMAT, load_config, settings_in, written
from rmt.yamlfile import load_yaml


@pytest.fixture
def values():
    """What config.yaml holds, without its checksum: as if edited on purpose."""
    values = yaml.safe_load(written(RunConfig(seed=3)))
    del values["sha256"]
    return values


def write(folder, values):
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def test_the_format_comes_first_and_all_is_read_back(tmp_path, values):
    assert next(iter(values.items())) == ("format", FORMAT)
    write(tmp_path, values)
    assert load_config(tmp_path) == RunConfig(seed=3)


def test_a_missing_field_is_an_error_that_names_it(tmp_path, values):
    del values["train"]["keep"]
    write(tmp_path, values)
    with pytest.raises(CheckpointError, match=rf"train\.keep is missing, which format {FORMAT} has"):
        load_config(tmp_path)


def test_a_missing_field_of_an_older_format_has_its_default(tmp_path, values):
    del values["train"]["keep"], values["format"]
    write(tmp_path, values)
    assert load_config(tmp_path) == RunConfig(seed=3)


def test_a_format_between_lacks_only_what_came_after_it(tmp_path, values):
    del values["train"]["on_nan"]
    write(tmp_path, {**values, "format": 2})
    assert load_config(tmp_path) == RunConfig(seed=3)
    del values["train"]["keep"]
    write(tmp_path, {**values, "format": 2})
    with pytest.raises(CheckpointError, match=r"train\.keep is missing, which format 2 has"):
        load_config(tmp_path)


def test_a_run_of_an_older_format_that_names_no_precision_was_trained_in_float32(tmp_path, values):
    del values["precision"], values["format"]
    write(tmp_path, values)
    assert load_config(tmp_path) == RunConfig(seed=3, precision="32-true")


@pytest.mark.parametrize("version", [0, FORMAT + 1, "2", True, None])
def test_a_format_that_is_not_known_is_refused(tmp_path, values, version):
    write(tmp_path, {**values, "format": version})
    with pytest.raises(ConfigError, match=f"is not known; this release reads 1 to {FORMAT}"):
        load_config(tmp_path)


def test_a_key_that_is_not_known_is_named_with_its_file(tmp_path, values):
    values["model"]["widht"] = 3
    write(tmp_path, values)
    with pytest.raises(ConfigError, match=r"config\.yaml': unknown key 'model\.widht'; did you mean"):
        load_config(tmp_path)


def test_the_file_of_a_run_is_a_file_of_settings(tmp_path, values):
    write(tmp_path, values)
    settings = settings_in(load_yaml(tmp_path / "config.yaml"), "config.yaml")
    assert "format" not in settings
    assert settings["seed"] == 3


def test_a_run_that_names_no_version_of_its_recipe_has_the_first(tmp_path, values):
    for version in (1, 2, 3):
        write(tmp_path, {**values, "recipe": "modern", "format": version})
        assert load_config(tmp_path).recipe == "modern-1"
    assert settings_in({**values, "recipe": "modern"}, "config.yaml")["recipe"] == "modern-1"


def test_settings_of_a_user_may_name_the_newest_version_by_its_short_name():
    settings = {"recipe": "modern", "train": {"steps": 3}}
    assert settings_in(settings, "mine.yaml") == settings


def changed_line(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"), [("seed: 3\n", "seed: 4\n"), ("  steps: ", "  steps: 1"), ("  width: ", "  width: 1")]
)
def test_a_changed_value_is_refused_until_the_checksum_is_deleted(tmp_path, old, new):
    path = tmp_path / "config.yaml"
    path.write_text(changed_line(written(RunConfig(seed=3)), old, new))
    with pytest.raises(
        CheckpointError, match=r"config\.yaml' is damaged: .*sha256; .*on purpose, delete its line 'sha256"
    ):
        load_config(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("sha256")))
    assert load_config(tmp_path) != RunConfig(seed=3)


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    text = written(RunConfig(seed=3))
    for size in range(0, len(text) - 1, 11):
        (tmp_path / "config.yaml").write_text(text[:size])
        with pytest.raises((CheckpointError, ConfigError)):
            load_config(tmp_path)


@pytest.mark.parametrize("group", ["task", "model", "bptt", "optimizer", "rate", "curriculum", "train"])
def test_a_group_that_is_missing_is_damage_in_every_format(tmp_path, values, group):
    del values[group], values["format"]
    write(tmp_path, values)
    with pytest.raises(CheckpointError, match=rf"config\.yaml' is damaged: {group} is missing; copy it"):
        load_config(tmp_path)


def test_comments_and_another_order_are_no_damage(tmp_path):
    values = yaml.safe_load(written(RunConfig(seed=3)))
    write(tmp_path, dict(reversed(values.items())))
    with (tmp_path / "config.yaml").open("a") as file:
        file.write("# the run of Tuesday\n")
    assert load_config(tmp_path) == RunConfig(seed=3)


@pytest.mark.parametrize("value", [math.exp(700), 1e9, -1.0])
def test_a_result_may_be_as_large_as_a_perplexity_gets(value):
    assert reason_no_result(result_of(value)) == ""


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400])
def test_a_result_that_was_not_measured_is_damage(value):
    assert "is no number that can be measured" in reason_no_result(result_of(value))


def result_of(value):
    """A result, with everything in it but the value empty."""
    empty = {name: kinds[0]() for name, kinds in FIELDS.items()}
    return {**empty, "value": value}
