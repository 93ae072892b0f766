"""The config.yaml of a fine-tuning run has a format and a checksum; older ones have neither, and open."""

import pytest
import yaml

from rmt.cli.finetune import COMMAND
from rmt.config import from_dict, to_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.language_config import LanguageConfig
from rmt.documents.stored import load_settings, run_task
from rmt.errors import CheckpointError, ConfigError
from rmt.train.stored import FORMAT, written

CONFIG = FinetuneConfig(data="reviews.csv", backbone="bert", segments=3, precision="32-true")


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.yaml").write_text(written(CONFIG))
    return tmp_path


def edit(run, old, new):
    path = run / "config.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def test_settings_are_read_as_they_were_written(run):
    assert yaml.safe_load((run / "config.yaml").read_text())["format"] == FORMAT
    assert load_settings(run) == to_dict(CONFIG)


def test_the_config_of_a_run_can_be_given_to_the_command(run):
    settings = COMMAND.collect(["--config", str(run / "config.yaml")]).settings
    assert from_dict(FinetuneConfig, settings) == CONFIG


def test_a_changed_value_is_seen(run):
    edit(run, "segments: 3", "segments: 4")
    with pytest.raises(CheckpointError, match="does not match its sha256; put the old values back"):
        load_settings(run)


def test_a_missing_line_is_seen_where_the_checksum_was_deleted_on_purpose(run):
    lines = (run / "config.yaml").read_text().splitlines(True)
    kept = [line for line in lines if not line.startswith(("sha256", "depth"))]
    (run / "config.yaml").write_text("".join(kept))
    with pytest.raises(CheckpointError, match=f"is damaged: depth is missing, which format {FORMAT} has"):
        load_settings(run)


def test_a_field_that_an_earlier_commit_did_not_know_has_its_default(tmp_path):
    old = {name: value for name, value in to_dict(CONFIG).items() if name != "overlong"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(old))
    assert load_settings(tmp_path) == to_dict(CONFIG)


def test_a_format_of_the_future_is_refused(run):
    edit(run, f"format: {FORMAT}", "format: 99")
    with pytest.raises(ConfigError, match=r"format=99 .* is not known"):
        load_settings(run)


def test_a_checksum_that_was_deleted_on_purpose_asks_for_no_field_that_the_format_did_not_know(run):
    newer = ("sha256", "cache", "sink")
    lines = (run / "config.yaml").read_text().splitlines(True)
    kept = [line for line in lines if not line.startswith(newer)]
    (run / "config.yaml").write_text("".join(kept).replace(f"format: {FORMAT}", "format: 5"))
    assert load_settings(run) == to_dict(CONFIG)


def test_a_run_of_a_language_model_is_read_as_one(tmp_path):
    config = LanguageConfig(data="novel.txt", backbone="gpt2")
    (tmp_path / "config.yaml").write_text(written(config))
    assert load_settings(tmp_path) == to_dict(config)
    kept = [line for line in (tmp_path / "config.yaml").read_text().splitlines(True) if "sha256" not in line]
    (tmp_path / "config.yaml").write_text("".join(kept))
    assert load_settings(tmp_path) == to_dict(config)
    with pytest.raises(ConfigError, match="is a language model, which labels no documents"):
        run_task(tmp_path)
