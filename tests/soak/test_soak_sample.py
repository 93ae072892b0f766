"""A sample of what `make soak` does: whatever is asked for or damaged, no traceback, no hang, one line."""

import pytest

from tests.soak.__main__ import soak


@pytest.mark.filterwarnings("ignore")
def test_odd_options_and_damaged_files_are_answered_in_a_line():
    counts, bad = soak(options=200, damaged=90, seed=17)
    assert bad == []
    assert counts.total() == 290
    assert counts["refused"] > 150
