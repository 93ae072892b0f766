"""Settings as YAML: the plain part of it only, one line with its place for anything else."""

import time

import pytest

from rmt.errors import ConfigError
from rmt.yamlfile import MOST_BYTES, load_yaml, parse_yaml, write_yaml

NINE_LEVELS = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: &x 2\n", "here, line 2: &x is an anchor; leave it out"),
        ("b: *x\n", "here, line 1: *x is an alias; write the value out"),
        ('a: !!int ""', "here, line 1: tag:yaml.org,2002:int is a tag; leave it out"),
        ("\na: !!bool maybe", "here, line 2: tag:yaml.org,2002:bool is a tag; leave it out"),
        ("a: !own {b: 1}", "here, line 1: !own is a tag; leave it out"),
        ("a: !!python/object/apply:os.system [ls]", "here, line 1: tag:yaml.org,2002:python/object/apply"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "here has the key 'b' twice, in lines 2 and 4; leave one out"),
        ("a: " + "[" * 20, "here, line 1: more than 16 levels; leave the inner ones out"),
        ("a: " + "[" * 100_000, "here, line 1: more than 16 levels; leave the inner ones out"),
        ("a: " + "x" * MOST_BYTES, f"here has more than {MOST_BYTES:,} bytes; name a file of settings"),
    ],
    ids=["anchor", "alias", "int", "bool", "own tag", "python", "twice", "deep", "very deep", "large"],
)
def test_what_a_reader_would_not_expect_is_one_line_with_its_place(text, message):
    with pytest.raises(ConfigError) as refused:
        parse_yaml(text, "here")
    assert str(refused.value).startswith(message)


def test_nine_levels_of_aliases_are_refused_at_once(tmp_path):
    (tmp_path / "laughs.yaml").write_text(NINE_LEVELS)
    start = time.perf_counter()
    with pytest.raises(ConfigError, match=r"laughs\.yaml', line 1: &a is an anchor; leave it out"):
        load_yaml(tmp_path / "laughs.yaml")
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("letter", ["x", "ä"])
def test_a_file_is_not_loaded_beyond_its_limit(tmp_path, letter):
    (tmp_path / "large.yaml").write_text("a: x" + letter * 2 * MOST_BYTES, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"large\.yaml' has more than 262,144 bytes"):
        load_yaml(tmp_path / "large.yaml")


def test_what_is_written_is_loaded_again_also_where_a_list_stands_twice():
    shared = [1, 2]
    values = {"a": shared, "b": shared, "c": {"d": "ä\n", "e": None}}
    assert parse_yaml(write_yaml(values), "here") == values
