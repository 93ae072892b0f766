"""Where there is no GPU, nothing is served."""

import pytest

from rmt.gpu.engine import why_not_served
from tests.laws.models import build, configuration


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
def test_a_model_on_a_cpu_is_not_served_and_the_reason_is_a_line(precision):
    reason = why_not_served(build(configuration("rmt")), precision, learns=False)
    assert reason
    assert "\n" not in reason
