"""JSON of strangers: whatever is wrong with it is one kind of error."""

import pytest

from rmt.jsonfile import parse_json


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 5000 + "]" * 5000, "", "{", "9" * 5000]
)
def test_what_is_nested_without_end_is_an_error_of_its_value(text):
    with pytest.raises(ValueError, match=r"nested|Expecting|digits|limit"):
        parse_json(text)


def test_what_is_right_is_returned():
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}
