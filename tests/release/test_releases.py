"""What earlier commits wrote opens in this one, and computes the same numbers."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

import rmt
from rmt.experiments.run import settled, stored_precision
from rmt.train.stored import load_config
from tests.cli.command import rmt as command
from tests.covering import quick
from tests.gpus import pretend

HERE = Path(__file__).parent
RELEASES = ("17fc2a8", "4c22bb8", "8d21696", "9b5032f", "265ffd1")  # of formats 1 to 5
ENDS = (RELEASES[0], RELEASES[-1])
RUNS = [
    (release, config.parent.name) for release in RELEASES for config in HERE.glob(f"{release}/*/config.yaml")
]
# by each release in make test-all; of the first and the last one in make test
MOSTLY_SLOW = pytest.mark.parametrize(
    "run",
    quick({"-".join(run): run for run in sorted(RUNS)}, *("-".join(run) for run in RUNS if run[0] in ENDS)),
    indirect=True,
)
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(params=RELEASES)
def numbers(request, tmp_path, monkeypatch):
    """What a release computed; a copy of what it wrote is the working directory."""
    return opened(request.param, tmp_path, monkeypatch)


@pytest.fixture(params=sorted(RUNS), ids="-".join)
def run(request, tmp_path, monkeypatch):
    """The name of a run that a release wrote, and what the release computed with it; the same directory."""
    release, name = request.param
    return name, opened(release, tmp_path, monkeypatch)[name]


def opened(release, tmp_path, monkeypatch):
    folder = tmp_path / "release"
    shutil.copytree(HERE / release, folder)
    monkeypatch.chdir(folder)
    return json.loads((folder / "expected.json").read_text())


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


def test_a_run_folder_computes_what_it_computed(run):
    name, expected = run
    model = rmt.load(name).eval()
    tokens = torch.tensor(expected["tokens"])
    with torch.no_grad():
        outputs = list(rmt.unroll(model, tokens.split(8, dim=1), model.initial_state(2)))
    logits = torch.cat([output.logits for output in outputs], 1).double().sum(-1)
    torch.testing.assert_close(logits, doubles(expected["logits"]), **CLOSE)


def test_a_saved_session_goes_on(run):
    name, expected = run
    session = rmt.Session.load(f"{name}.session", rmt.load(name).eval())
    session.feed(torch.tensor(expected["tokens"][0][11:]))
    assert session.score().loss == pytest.approx(expected["session"]["loss"], rel=1e-6)
    torch.testing.assert_close(session.logits()[0].double(), doubles(expected["session"]["logits"]), **CLOSE)


@MOSTLY_SLOW
def test_a_run_is_measured_as_it_was(run, capsys):
    name, expected = run
    result = command(capsys, f"evaluate {name}")
    assert result.code == 0, result.err
    value = expected["value"]
    assert f"{value:.4f}" in result.out or f"{value:.3f}" in result.out


@MOSTLY_SLOW
def test_a_run_goes_on_where_it_ended(run, capsys):
    """Its checkpoint, optimizer states and the lanes' states are read by the same command with more steps."""
    folder = Path(run[0])
    place = folder / "config.yaml"
    config = yaml.safe_load(place.read_text())
    config["train"]["steps"] = 6
    config.pop("sha256", None)  # edited on purpose
    place.write_text(yaml.safe_dump(config, sort_keys=False))
    (folder / "result.json").unlink()
    result = command(capsys, f"train --config {place} --out {folder}")
    assert result.code == 0, result.err
    assert json.loads((folder / "result.json").read_text())["steps"] == 6


def test_a_run_keeps_its_number_format_on_any_device(run, capsys, monkeypatch):
    name = run[0]
    config = load_config(name)
    assert config.precision == "32-true"
    pretend(monkeypatch, "NVIDIA H200")
    asked = replace(config, precision="auto")
    assert settled(asked, stored_precision(Path(name), False)) == config
    refused = command(capsys, f"train --config {name}/config.yaml --precision 64-true --out {name}")
    assert refused.code == 2
    assert "holds a run with precision=32-true, not 64-true; name another --out" in refused.err


def test_a_run_that_names_no_version_of_its_recipe_has_the_first(run):
    stored = yaml.safe_load(Path(run[0], "config.yaml").read_text())
    assert load_config(run[0]).recipe == ("modern-1" if stored.get("format", 1) < 4 else "modern-2")


@pytest.mark.parametrize("name", ["wrapped-gpt2", "wrapped-bert"])
def test_a_wrapped_model_computes_what_it_computed(numbers, name):
    pytest.importorskip("transformers")
    model = load_wrapped(name)
    expected = numbers[name]
    with torch.no_grad():
        output = model(input_ids=torch.tensor(expected["tokens"]), return_state=True)
    torch.testing.assert_close(output.logits.double(), doubles(expected["logits"]), **CLOSE)
    carried = output.state.named()
    for part, values in expected.get("carried", {"memory": expected.get("memory")}).items():
        torch.testing.assert_close(carried[part].double(), doubles(values), **CLOSE)


def test_a_session_of_a_wrapped_model_goes_on(numbers):
    pytest.importorskip("transformers")
    expected = numbers["wrapped-gpt2"]
    session = rmt.Session.load("wrapped-gpt2.session", load_wrapped("wrapped-gpt2"))
    session.feed(torch.tensor(expected["tokens"][0][9:]))
    assert session.score().loss == pytest.approx(expected["session"]["loss"], rel=1e-6)
    torch.testing.assert_close(session.logits()[0].double(), doubles(expected["session"]["logits"]), **CLOSE)


def load_wrapped(name):
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    import rmt.hf  # noqa: F401

    auto = AutoModelForCausalLM if "gpt2" in name else AutoModelForSequenceClassification
    return auto.from_pretrained(name).eval()
