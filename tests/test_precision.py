"""Number formats by name: what auto stands for, and which weights each needs."""

import pytest
import torch

from rmt import Session
from rmt.errors import ConfigError
from rmt.precision import NAMES, precision_for, precision_of, products, weight_format
from tests.gpus import pretend
from tests.laws.models import LENGTH, build, configuration, random_tokens

FORMATS = NAMES[1:]


def test_auto_is_bfloat16_where_a_gpu_has_it_and_float32_elsewhere(monkeypatch):
    assert precision_of("auto", "cpu") == "32-true"
    for has_bfloat16, expected in ((True, "bf16-mixed"), (False, "32-true")):
        monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation, has=has_bfloat16: has)
        assert precision_of("auto", "cuda") == expected
        assert precision_of("auto", "cpu") == "32-true"


def test_bfloat16_on_a_gpu_without_it_is_refused(monkeypatch):
    pretend(monkeypatch, "Tesla T4")
    line = "precision=bf16-mixed: Tesla T4 does not multiply in bfloat16; use 32-true or auto"
    with pytest.raises(ConfigError) as caught:
        precision_of("bf16-mixed", "cuda")
    assert str(caught.value) == line
    assert precision_of("bf16-mixed", "cpu") == "bf16-mixed"


def test_a_run_is_used_in_the_format_of_its_training_where_the_device_has_it(monkeypatch):
    assert [precision_of("auto", "cpu", trained) for trained in FORMATS] == ["32-true", "32-true", "64-true"]
    pretend(monkeypatch, "NVIDIA H200")
    assert [precision_of("auto", "cuda", trained) for trained in FORMATS] == list(FORMATS)
    assert precision_of("auto", "cpu", "bf16-mixed") == "32-true"
    pretend(monkeypatch, "Tesla T4")
    assert [precision_of("auto", "cuda", trained) for trained in FORMATS] == ["32-true", "32-true", "64-true"]


@pytest.mark.parametrize("asked", FORMATS)
def test_what_is_asked_for_is_what_is_computed_in(monkeypatch, asked):
    assert precision_of(asked, "cpu") == precision_of(asked, "cpu", "64-true") == asked
    pretend(monkeypatch, "NVIDIA H200")
    assert precision_of(asked, "cuda") == precision_of(asked, "cuda", "32-true") == asked


def test_weights_have_a_format_of_their_own():
    assert [weight_format(name) for name in FORMATS] == [torch.float32, torch.float32, torch.float64]


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="unknown precision 'bf16-mix'; did you mean 'bf16-mixed'"):
        precision_of("bf16-mix", "cpu")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float32, "32-true"), (torch.float64, "64-true"), (torch.bfloat16, "bf16-true")],
    ids=str,
)
def test_auto_leaves_weights_as_they_are_on_a_cpu(dtype, expected):
    assert precision_for("auto", torch.zeros(1, dtype=dtype)) == expected


def test_auto_mixes_float32_only(monkeypatch):
    monkeypatch.setattr("rmt.precision.multiplies_in_bfloat16", lambda device: True)
    assert precision_for("auto", torch.zeros(1, dtype=torch.float32)) == "bf16-mixed"
    assert precision_for("auto", torch.zeros(1, dtype=torch.float64)) == "64-true"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("32-true", torch.float64), ("64-true", torch.float32), ("bf16-mixed", torch.float64)],
    ids=str,
)
def test_a_format_that_needs_other_weights_is_refused(name, dtype):
    with pytest.raises(ConfigError, match=f"precision={name} needs weights of .*, not {dtype}; use auto"):
        precision_for(name, torch.zeros(1, dtype=dtype))


def test_products_are_in_bfloat16_if_the_precision_is_mixed():
    for name, dtype in (("bf16-mixed", torch.bfloat16), ("32-true", torch.float32)):
        with products(name, torch.device("cpu")):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_products_leave_the_autocast_of_a_caller_alone():
    matrix = torch.ones(2, 2, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16), products("32-true", torch.device("cpu")):
        assert (matrix @ matrix).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt", "memory_in_layers", "associative_memory"])
def test_a_mixed_session_is_the_exact_one_to_rounding_however_it_is_fed_and_holds_float32(kind, tmp_path):
    model, tokens = build(configuration(kind)).float(), random_tokens(1, 3 * LENGTH + 2)
    exact = Session(model, segment_length=LENGTH, precision="32-true")
    assert exact.precision == Session(model, segment_length=LENGTH).precision
    expected = exact.feed(tokens, "log_probs")
    for size in (1, LENGTH, tokens.shape[1]):
        session = Session(model, segment_length=LENGTH, precision="bf16-mixed")
        results = [session.feed(piece, "log_probs") for piece in tokens.split(size, dim=1)]
        torch.testing.assert_close(torch.cat(results, dim=1), expected, rtol=0.1, atol=0.1, equal_nan=True)
        assert not torch.equal(torch.cat(results, dim=1)[:, 1:], expected[:, 1:])
        assert {tensor.dtype for tensor in session.state.flat()} <= {torch.float32, torch.long}
        assert session.last.dtype == torch.float32
    session.save(tmp_path / "mixed")
    for precision in ("32-true", "bf16-mixed", "auto"):
        loaded = Session.load(tmp_path / "mixed", model, precision=precision)
        after = loaded.feed([1, 2, 3], "log_probs")
        torch.testing.assert_close(after, exact.fork().feed([1, 2, 3], "log_probs"), rtol=0.1, atol=0.1)
