"""The configuration in a run folder has a format: within it nothing may be missing."""

import pytest
import yaml

from rmt.errors import CheckpointError, ConfigError
from rmt.train.config import RunConfig
from rmt.train.stored import load_config, settings_in, written
from rmt.yamlfile import load_yaml


@pytest.fixture
def values():
    return yaml.safe_load(written(RunConfig(seed=3)))


def write(folder, values):
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def test_the_format_comes_first_and_all_is_read_back(tmp_path, values):
    assert next(iter(values.items())) == ("format", 3)
    write(tmp_path, values)
    assert load_config(tmp_path) == RunConfig(seed=3)


def test_a_missing_field_is_an_error_that_names_it(tmp_path, values):
    del values["train"]["keep"]
    write(tmp_path, values)
    with pytest.raises(CheckpointError, match=r"train\.keep is missing, which format 3 has"):
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


@pytest.mark.parametrize("version", [0, 4, "2", True, None])
def test_a_format_that_is_not_known_is_refused(tmp_path, values, version):
    write(tmp_path, {**values, "format": version})
    with pytest.raises(ConfigError, match="is not known; this release reads 1 to 3"):
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
