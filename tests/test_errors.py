"""Messages: one line, short, and nothing in them that commands a terminal."""

import pytest

from rmt.errors import MOST_CHARACTERS, ConfigError, printable, shown, unknown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain äöü 漢字 – ok", "plain äöü 漢字 – ok"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("\x9b31m", "\\x9b31m"),  # CSI in one character
        ("a\u202eb", "a\\u202eb"),  # turns the line
        ("\udc80", "\\udc80"),  # a byte of a file name that is not UTF-8
        ("no\xa0break", "no\xa0break"),
    ],
)
def test_a_text_is_made_printable(text, safe):
    assert printable(text) == safe
    assert str(ConfigError(text)) == safe


def test_a_long_message_keeps_its_begin_and_its_end():
    message = str(ConfigError(f"field={'x' * 10**6} is wrong; leave it out"))
    assert len(message) < MOST_CHARACTERS + 10
    assert message.startswith("field=xxx")
    assert message.endswith("xxx is wrong; leave it out")


@pytest.mark.parametrize(
    "value",
    [10**5000, -(2**40_000), [10**5000], {"a": 1 << 20_000}],
    ids=["positive", "negative", "list", "group"],
)
def test_a_number_of_any_size_can_be_shown(value):
    assert len(shown(value)) < 100


def test_a_long_unknown_name_is_answered_at_once():
    assert len(str(unknown("task", "x" * 10**6, ["copy"]))) < 300
