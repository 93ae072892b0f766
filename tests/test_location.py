"""A class named by text: found on the path or beside the user, and one line where it is not."""

import pytest

from rmt.errors import ConfigError, RMTError
from rmt.location import class_at


def test_a_class_is_found_in_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "own_errors.py").write_text("from rmt.errors import RMTError\nclass Own(RMTError): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    assert class_at("own_errors:Own", RMTError, "rmt.errors", "error").__name__ == "Own"


def test_a_module_that_fails_is_one_line_with_its_cause(tmp_path, monkeypatch):
    (tmp_path / "own_failure.py").write_text("raise ValueError('two\\nlines')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^error: module 'own_failure' .* \(ValueError: two lines\); name"):
        class_at("own_failure:Own", RMTError, "rmt.errors", "error")


def test_another_thing_says_what_to_extend():
    with pytest.raises(ConfigError, match=r"^error: 'Path' in .* is not .* rmt\.errors\.RMTError$"):
        class_at("pathlib:Path", RMTError, "rmt.errors", "error")
