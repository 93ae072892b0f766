"""The other tests of this folder need the extra [hf]."""

import pytest


def test_transformers_is_installed():
    reason = "transformers is not installed, so no test of tests/hf runs: pip install 'recurrent-memory[hf]'"
    assert pytest.importorskip("transformers", reason=reason)
