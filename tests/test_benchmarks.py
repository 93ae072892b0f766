"""The scripts of benchmarks/: the chart draws what result files say, the original code runs beside ours."""

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import confusions, original, places, precision, recipe, speed_chart
from benchmarks.speed_chart import CARD, CHARTED, bars, newest_rows, records_in, result_files
from rmt.analysis.capture import SegmentAttention
from rmt.bench import measure
from rmt.bench.text import made_text
from rmt.cli.main import main
from rmt.core.spans import Spans
from rmt.experiments.report import results_below
from tests.cli.command import TINY

CHECKOUT = "RMT_ORIGINAL"  # names a clone of booydar/LM-RMT
FILES = result_files(speed_chart.FOLDER)
# A stand-in for the original's model, with its way of being called: time-major, memory in and out.
STAND_IN = """
import torch
from proj_adaptive_softmax import scale

class MemTransformerLM(torch.nn.Module):
    def __init__(self, n_token, d_model, num_mem_tokens, **sizes):
        super().__init__()
        self.mem_tokens = torch.nn.Parameter(torch.randn(num_mem_tokens, 1, d_model))
        self.table = torch.nn.Parameter(torch.empty(n_token, d_model))
        self.sizes, self.calls = sizes, []

    def forward(self, data, target, mem_tokens=None):
        assert data.shape == target.shape and mem_tokens.shape[1] == data.shape[1]
        self.calls.append((data, mem_tokens))
        hidden = self.table[data] * scale + mem_tokens.mean(0)
        logits = hidden @ self.table.t()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
        return [mem_tokens + hidden.mean(0), loss.view(target.shape)]
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A checkout with the stand-in, on no path when the test is over."""
    (tmp_path / "pytorch" / "utils").mkdir(parents=True)
    (tmp_path / "pytorch" / "mem_transformer.py").write_text(STAND_IN)
    (tmp_path / "pytorch" / "utils" / "proj_adaptive_softmax.py").write_text("scale = 1.0")
    return prepared(tmp_path, monkeypatch)


def prepared(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout that can be imported from, and texts that are made quickly."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("mem_transformer", "proj_adaptive_softmax", "log_uniform_sampler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    return checkout


def run_original(capsys, checkout: Path, out: Path, names: str) -> dict:
    """The result file of a tiny comparison."""
    original.main([str(checkout), *names.split(), "--device", "cpu", "--tiny", "--out", str(out)])
    assert "written: " in capsys.readouterr().out
    return json.loads(next(out.glob("*-original.json")).read_text())


def test_the_charts_files_exist_and_have_the_fields():
    assert FILES
    for numbers in (record for file in FILES for record in records_in(file)):
        assert {"date", "environment", "command", "rows"} <= numbers.keys()
        assert {"commit", "device", "torch"} <= numbers["environment"].keys()
    for (_, way), row in newest_rows(FILES, CARD).items():
        assert row["step"]["median"] > 0
        assert ("updates" in row) or not way.startswith("original")


def test_everything_that_is_charted_was_measured():
    drawn = {(each.configuration, each.label) for each in bars(newest_rows(FILES, CARD))}
    assert {name for name, label in drawn if label == "ours, fast"} == {*CHARTED}
    assert {name for name, label in drawn if label.startswith("original")} >= {
        "copy-24-6x12",
        "enwik8-relative",
        "wt103-relative",
    }


def result(folder: Path, name: str, device: str, **ways: float) -> None:
    rows = [
        {
            "configuration": "enwik8-relative",
            "way": way.replace("_", " "),
            "step": {"median": seconds},
            "updates": 3,
        }
        for way, seconds in ways.items()
    ]
    numbers = {"environment": {"device": device}, "rows": rows}
    (folder / name).write_text(json.dumps(numbers))


def test_the_newest_number_of_the_card_is_drawn_and_the_quicker_original(tmp_path):
    result(tmp_path, "2026-11-15-bench-paper.json", CARD, fast=0.02, eager=0.2)
    result(tmp_path, "2026-11-16-bench-paper.json", CARD, fast=0.01)
    result(tmp_path, "2026-11-17-bench-small.json", "a CPU", fast=9.0)
    result(tmp_path, "2026-11-15-original.json", CARD, original_tf32=0.2, original_bf16=0.1)
    drawn = {each.label: each for each in bars(newest_rows(result_files(tmp_path), CARD))}
    assert {label: round(each.milliseconds) for label, each in drawn.items()} == {
        "original code, for as many losses": 300,
        "ours, as written": 200,
        "ours, fast": 10,
    }
    assert drawn["ours, fast"].file == "2026-11-16-bench-paper.json"


def test_of_a_collection_the_first_record_is_the_newest(tmp_path):
    for number, seconds in enumerate((0.01, 0.03)):
        result(tmp_path, f"{number}.json", CARD, fast=seconds)
    records = [json.loads((tmp_path / f"{number}.json").read_text()) for number in (0, 1)]
    (tmp_path / "2026-11-18-engine.json").write_text(json.dumps(records))
    (drawn,) = bars(newest_rows(result_files(tmp_path), CARD))
    assert (round(drawn.milliseconds), drawn.file) == (10, "2026-11-18-engine.json")


def test_the_chart_is_drawn_and_says_where_its_numbers_are_from(tmp_path, capsys):
    result(tmp_path, "2026-11-15-bench-paper.json", CARD, fast=0.02)
    picture = tmp_path / "speed.png"
    speed_chart.main([str(tmp_path / "2026-11-15-bench-paper.json"), "--out", str(picture)])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "20.00 ms  2026-11-15-bench-paper.json" in capsys.readouterr().out


def test_a_card_without_numbers_has_no_chart(tmp_path):
    result(tmp_path, "2026-11-15-bench-paper.json", CARD, fast=0.02)
    with pytest.raises(SystemExit, match="no result file has a number of NVIDIA A100"):
        speed_chart.main([str(tmp_path / "2026-11-15-bench-paper.json"), "--card", "NVIDIA A100"])


def test_the_original_is_timed_in_both_precisions_beside_ours(capsys, stand_in, tmp_path):
    numbers = run_original(capsys, stand_in, tmp_path / "out", "copy-24-6x12 enwik8-relative")
    ways = [(row["configuration"], row["way"], row["updates"]) for row in numbers["rows"]]
    assert ways == [
        ("copy-24-6x12", "original float32", 1),
        ("copy-24-6x12", "original bf16", 1),
        ("copy-24-6x12", "eager", 1),
        ("enwik8-relative", "original float32", 3),
        ("enwik8-relative", "original bf16", 3),
        ("enwik8-relative", "eager", 1),
    ]
    assert numbers["original"] == {"repository": "booydar/LM-RMT", "commit": "unknown"}
    assert {"commit", "source", "torch", "device"} <= numbers["environment"].keys()
    page = next((tmp_path / "out").glob("*-original.md")).read_text()
    assert page.count("\n| ") == 4
    assert "| copy-24-6x12 | " in page


@pytest.mark.parametrize(("name", "segments"), [("copy-24-6x12", 6), ("enwik8-relative", 3)])
def test_the_original_sees_the_segments_that_ours_sees(stand_in, tmp_path, name, segments):
    device = torch.device("cpu")
    measured = original.subject(name, original.TINY, "cpu", tmp_path)
    model = original.build(original.original_model(stand_in), measured, device)
    loss = original.LOSSES[measured.task.layout](model, measured, device)
    for _ in range(3):
        model.calls.clear()
        loss().backward()
    assert len(model.calls) == segments
    tokens, memory = model.calls[0]
    assert tokens.shape == (measured.task.tokens_per_segment(measured.config.task.segments), 2)
    assert memory.requires_grad == (name == "copy-24-6x12")  # text goes on from a memory that is cut
    assert all(later.requires_grad for _, later in model.calls[1:])


def test_what_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"has no pytorch/mem_transformer\.py"):
        original.main([str(tmp_path)])


@pytest.mark.skipif(CHECKOUT not in os.environ, reason=f"{CHECKOUT} names no clone of booydar/LM-RMT")
def test_the_original_code_itself_runs_beside_ours(capsys, tmp_path, monkeypatch):
    checkout = prepared(Path(os.environ[CHECKOUT]), monkeypatch)
    names = "copy-24-6x12 copy-24-9x8 enwik8-relative"
    numbers = run_original(capsys, checkout, tmp_path, names)
    assert [row["configuration"] for row in numbers["rows"][::3]] == names.split()
    assert all(row["step"]["median"] > 0 for row in numbers["rows"])


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="trains for minutes where there is a GPU")
def test_both_precisions_stand_beside_each_other_with_their_curves(tmp_path, monkeypatch, capsys):
    case = precision.Case("copy", f"copy {TINY} --train.test_samples 8", 1, "accuracy")
    monkeypatch.setattr(precision, "CPU_CASES", (case,))
    precision.main(["--out", str(tmp_path)])
    runs = json.loads((tmp_path / "precision.json").read_text())["runs"]
    assert [(run["precision"], run["curve"][0]) for run in runs] == [
        ("32-true", [2, 4]),
        ("bf16-mixed", [2, 4]),
    ]
    page = (tmp_path / "precision.md").read_text()
    assert f"| copy | 0 | accuracy | {runs[0]['value']:.4f} | {runs[1]['value']:.4f} |" in page
    assert (tmp_path / "precision.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("row", [*recipe.ROWS, *recipe.SMALL], ids=lambda row: row.name)
def test_every_row_of_the_recipe_is_a_command_of_its_own_folder(row, tmp_path, capsys):
    commands = list(row.commands(tmp_path, made_text(20, tmp_path, 2000)))
    assert len({command[-1] for command in commands}) == len(commands)
    for command in commands[:1]:
        assert main([*command, "--print_config"]) == 0, capsys.readouterr().err


def test_rows_of_the_recipe_tell_what_their_runs_reached(tmp_path, monkeypatch, capsys):
    row = recipe.Row("copy-2 in 3", f"copy {TINY} --train.test_samples 8", 2, 4, 0.99)
    monkeypatch.setattr(recipe, "ROWS", (row,))
    recipe.main(["--out", str(tmp_path)])
    results = [json.loads(line) for line in (tmp_path / "recipe.jsonl").read_text().splitlines()]
    assert [result["seed"] for result in results] == [0, 1]
    assert [len(part) for part in results_below([tmp_path / "recipe.jsonl"])] == [2, 0]
    values = recipe.spread([result["value"] for result in results], "{:.4f}")
    line = f"| copy-2 in 3 | 0.99 in 4 steps, 2 seeds | 2 | 0 | – | 4 | {values} |"
    assert line in (tmp_path / "recipe.md").read_text()
    assert line in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no row begins with cpoy; there are: copy-2 in 3"):
        recipe.main(["cpoy"])


def test_records_of_runs_are_drawn_without_training_the_newest_of_each_seed(tmp_path, monkeypatch, capsys):
    row = recipe.Row("copy-2 in 3", "copy", 2, 400)
    monkeypatch.setattr(recipe, "ROWS", (row,))
    first, again = (
        {
            "row": row.name,
            "seed": seed,
            "value": value,
            "steps": steps,
            "reached": steps,
            "metric": "accuracy",
        }
        for seed, value, steps in ((0, 0.5, 100), (0, 0.995, 200))
    )
    (tmp_path / "records").write_text(
        "".join(f"{json.dumps(record)}\n" for record in (first, again, again | {"seed": 1}))
    )
    recipe.main(["--records", str(tmp_path / "records"), "--out", str(tmp_path / "out")])
    line = "| copy-2 in 3 | 0.99 in 400 steps, 2 seeds | 2 | 2 | 200 | 200 | 0.9950 |"
    assert line in capsys.readouterr().out
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"recipe.md", "recipe.png"}


def test_rows_of_the_recipe_are_chosen_by_whole_words():
    names = {row.name for row in recipe.chosen(["copy-24", "Transformer-XL, reverse-24"], "")}
    assert {"copy-24 in 3", "copy-24 in 9, rates ÷2", "Transformer-XL, reverse-24 in 2"} <= names
    assert not {"copy-240 in 6", "Transformer-XL, copy-24 in 3", "reverse-24 in 2"} & names
    assert len(recipe.chosen(["copy"], "")) > len(recipe.chosen(["copy-24"], ""))


def test_commands_wait_for_memory_that_others_have():
    room, order, begun = recipe.Room(10), [], threading.Event()

    def second():
        begun.set()
        with room.of(6):
            order.append("second")

    with room.of(6):
        waiting = threading.Thread(target=second)
        waiting.start()
        begun.wait()
        with room.of(4):
            order.append("beside")
        order.append("first")
    waiting.join()
    assert order == ["beside", "first", "second"]
    with room.of(99):  # more than there is: alone
        assert room.free == 0
    assert room.free == 10


def test_a_spread_has_two_ends_unless_they_are_one():
    assert recipe.spread([0.25, 0.5, 0.125], "{:.2f}") == "0.12 to 0.50"
    assert recipe.spread([1000, 1000], "{:,}") == "1,000"


def made_answers(wrong_letter: str | None = None) -> confusions.Answers:
    """2,000 sequences of two pairs; of one letter the other pair's value is answered, if one is named."""
    generator = np.random.default_rng(0)
    keys = 11 + np.argsort(generator.random((2000, 26)), axis=1)[:, :2]
    values, asked = np.tile([3, 7], (2000, 1)), generator.integers(0, 2, 2000)
    asked_key = keys[np.arange(2000), asked]
    is_wrong = np.zeros(2000, dtype=bool)
    if wrong_letter:
        is_wrong = asked_key == confusions.CHARACTERS.index(wrong_letter)
    answer = np.where(is_wrong, values[0, 1 - asked], values[0, asked])
    return confusions.Answers(keys, values, asked, answer)


def test_confusions_name_the_letter_that_is_mistaken():
    answers = made_answers("q")
    assert 0.95 < answers.right.mean() < 0.97
    lines = confusions.report(answers)
    wrong = int((~answers.right).sum())
    assert f"of {wrong} wrong ones {wrong} are values of other pairs" in lines[0]
    listed = [line for line in lines if line.startswith("| ")][1:]
    assert listed
    assert all(line.startswith("| q | ") for line in listed)
    rows = np.arange(len(answers.keys))
    assert confusions.dependence(~answers.right, answers.keys[rows, answers.asked]) > 50
    assert confusions.dependence(~answers.right, answers.keys[rows, 1 - answers.asked]) < 2


def test_confusions_of_a_run_that_is_always_right_are_none():
    lines = confusions.report(made_answers())
    assert lines[0].startswith("- 1.0000 of 2,000 answers are right; of 0 wrong ones 0 are")
    assert lines[-1] == "|---|---|---|---|"


def test_confusions_are_read_from_a_run(tmp_path, capsys):
    run = str(tmp_path / "run")
    tiny = TINY.replace("--length 3", "").split()
    assert main(["train", "retrieval", *tiny, "--train.test_samples", "8", "--out", run]) == 0
    capsys.readouterr()
    confusions.main([run, "--device", "cpu"])
    out = capsys.readouterr().out
    assert out.startswith(f"## {run}")
    assert "of 10,000 answers are right" in out
    other = str(tmp_path / "other")
    assert main(["train", "copy", *TINY.split(), "--train.test_samples", "8", "--out", other]) == 0
    with pytest.raises(SystemExit, match="is a run of copy, not of retrieval"):
        confusions.main([other])


def test_places_tell_how_far_from_their_tokens_slots_look():
    slots, head = 6, 1
    spans = Spans(cache=0, read=slots, tokens=slots, write=slots)
    weights = torch.full((1, 2, 3 * slots, 3 * slots), 1 / (3 * slots))
    for slot in range(2, slots):  # slot i of the written memory looks at token i - 2
        weights[0, head, 2 * slots + slot] = torch.eye(3 * slots)[slots + slot - 2]
    found = places.distances(SegmentAttention(weights, spans, torch.zeros(slots), torch.zeros(slots)))
    assert [str(distance) for distance in found] == ["write, layer 1, head 2: 4 of 6 look -2 places away"]


def test_places_that_fail_are_those_that_fail_in_every_segment():
    right = torch.ones(2, 7)
    right[0, [1, 4]] = 0.1  # place 2 of both segments of three; what is behind them is no whole segment
    right[1, [2, 6]] = 0.1  # of one segment only
    first, second = places.failing(right, 3)
    assert first.endswith("places 2 of 3")
    assert second.endswith("none")


def test_places_are_read_from_a_run_of_a_copy(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "copy", *TINY.split(), "--out", str(run)]) == 0
    capsys.readouterr()
    figure = tmp_path / "places.png"
    places.main([str(run), "--sequences", "4", "--figure", str(figure)])
    assert capsys.readouterr().out.startswith("- copy 1: 0.")
    assert figure.read_bytes().startswith(b"\x89PNG")
    other = str(tmp_path / "other")
    assert main(["train", "reverse", *TINY.split(), "--out", other]) == 0
    with pytest.raises(SystemExit, match="is a run of reverse, not of copy"):
        places.main([other])
