"""`rmt plot`: the curves of run folders, as a page and as a picture."""

import json
import shutil
from pathlib import Path

import pytest

from rmt.experiments.listed import labels, listed_runs
from rmt.experiments.plotting import curve_sheet
from tests.analysis.pages import data_of
from tests.cli.command import TRAIN, rmt

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two settings: two seeds of one, one of the other."""
    from rmt.cli.main import main
    from tests.cli.command import varied

    folder = tmp_path_factory.mktemp("sweep")
    for name, words in {"a-0": "", "a-1": "--seed 1", "b": "--memory 3"}.items():
        assert main(varied(f"{TRAIN} {words} --out {folder / name} --quiet")) == 0
    return folder


@pytest.fixture
def sweep(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "sweep")
    return Path("sweep")


def page(capsys, words, out="sweep/curves.html"):
    code, printed, err = rmt(capsys, f"plot {words}")
    assert (code, err) == (0, "")
    assert f"curves: {out} (" in printed
    return data_of(Path(out).read_text())


def lines(run, split):
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if record.get("split") == split and "loss" in record]


def test_what_passed_through_memory_has_a_chart_for_each_border(capsys, sweep):
    loss, *borders = page(capsys, "sweep --metric slots_apart")["charts"]
    records = map(json.loads, (sweep / "b/metrics.jsonl").read_text().splitlines())
    probes = [record for record in records if "slots_apart" in record]
    assert [chart["quantity"] for chart in borders] == ["slots apart, border 1"]
    assert loss["quantity"] == "training loss"
    for border, chart in enumerate(borders):
        assert chart["curves"][1]["steps"] == [probe["step"] for probe in probes]
        values = [probe["slots_apart"][border] for probe in probes]
        assert chart["curves"][1]["mean"] == pytest.approx(values, rel=1e-4)


def test_seeds_of_one_setting_are_a_band_and_the_legend_says_what_differs(capsys, sweep):
    data = page(capsys, "sweep")
    assert data["labels"] == ["memory 2 (2 seeds)", "memory 3"]
    assert data["title"].endswith("rmt: by memory")
    loss, accuracy = data["charts"]
    assert (loss["quantity"], accuracy["quantity"]) == ("training loss", "validation accuracy")
    band, alone = loss["curves"]
    logged = [lines(sweep / name, None) for name in ("a-0", "a-1")]
    assert band["steps"] == [record["step"] for record in logged[0]]
    for index, pair in enumerate(zip(*logged, strict=True)):
        values = sorted(record["loss"] for record in pair)
        assert band["mean"][index] == pytest.approx(sum(values) / 2, rel=1e-5)
        assert [band["least"][index], band["most"][index]] == pytest.approx(values, rel=1e-5)
    assert "least" not in alone
    measured = [record["accuracy"] for record in lines(sweep / "b", "valid")]
    assert accuracy["curves"][1]["mean"] == pytest.approx(measured, rel=1e-5)


def test_a_legend_leaves_out_what_a_run_does_not_have(sweep):
    first, second = listed_runs([sweep / "a-0", sweep / "b"], warn=print)
    second.settings["task.data"] = "book.txt"
    names = ["task.data", "model.memory.size"]
    assert labels([first, second], names) == ["memory 2", "book.txt, memory 3"]


def test_runs_of_two_texts_of_one_name_are_two_curves_with_whole_paths(sweep):
    runs = listed_runs([sweep / "a-0", sweep / "a-1"], warn=print)
    for run, text in zip(runs, ("first/book.txt", "second/book.txt"), strict=True):
        run.settings["task.data"] = text
    sheet = curve_sheet(runs)
    assert [curve.label for curve in sheet.charts[0].curves] == ["first/book.txt", "second/book.txt"]
    assert "by data" in sheet.title


def test_the_legend_names_the_tasks_of_runs_that_another_setting_tells_apart_too(sweep):
    runs = listed_runs([sweep / "a-0", sweep / "b"], warn=print)
    for run, task in zip(runs, ("copy", "reverse"), strict=True):
        run.settings["task.name"] = task
    sheet = curve_sheet(runs)
    assert [curve.label for curve in sheet.charts[0].curves] == ["copy", "reverse"]
    assert "by task.name" in sheet.title
    runs += listed_runs([sweep / "a-1"], warn=print)
    runs[2].settings.update({"task.name": "copy", "model.memory.size": 3})
    labels = [curve.label for curve in curve_sheet(runs).charts[0].curves]
    assert labels == ["copy, memory 2", "reverse, memory 3", "copy, memory 3"]


def test_the_legend_names_the_texts_of_runs_of_two_models(sweep):
    runs = listed_runs([sweep / "a-0", sweep / "a-1"], warn=print)
    for run, text, model in zip(runs, ("a.txt", "b.txt"), ("rmt", "transformer_xl"), strict=True):
        run.settings.update({"task.data": text, "preset": model})
    labels = [curve.label for curve in curve_sheet(runs).charts[0].curves]
    assert labels == ["a.txt", "b.txt"]


def test_a_run_of_documents_beside_one_of_a_task_is_named_by_its_data(sweep):
    runs = listed_runs([sweep / "a-0", sweep / "a-1"], warn=print)
    runs[0].settings["task.name"] = "copy"
    documents = {"data": "reviews.csv", "backbone": "hub/bert", "memory": 4, "seed": 0}
    runs[1] = runs[1]._replace(settings=documents)
    assert [curve.label for curve in curve_sheet(runs).charts[0].curves] == ["copy", "reviews.csv"]


def test_a_run_that_two_paths_lead_to_is_drawn_once(capsys, sweep):
    assert len(page(capsys, f"sweep sweep/b {sweep.resolve()}", "curves.html")["runs"]) == 3


def test_a_run_is_drawn_into_its_own_folder_and_many_into_the_folder_here(capsys, sweep):
    assert page(capsys, "sweep/b", "sweep/b/curves.html")["labels"] == ["rmt"]
    assert len(page(capsys, "sweep/a-0 sweep/b", "curves.html")["runs"]) == 2


def test_the_page_links_to_the_explorer_that_lies_in_a_run_folder(capsys, sweep):
    (sweep / "b" / "explorer.html").write_text("a page")
    links = [run["explorer"] for run in page(capsys, "sweep")["runs"]]
    assert links == ["", "", "b/explorer.html"]
    (sweep / "b").rename(sweep / "a # run?")
    links = [run["explorer"] for run in page(capsys, "sweep --out page.html", "page.html")["runs"]]
    assert "sweep/a%20%23%20run%3F/explorer.html" in links


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_the_same_each_time(capsys, sweep, ending):
    pytest.importorskip("matplotlib")
    for name in ("one", "two"):
        assert rmt(capsys, f"plot sweep -o {name}.{ending}").code == 0
    first, second = (Path(f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert first == second
    if ending == "svg":
        assert b"memory 2 (2 seeds)" in first


def test_a_finetuning_run_has_its_loss_and_its_f1(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("tuned")
    run.mkdir()
    settings = {"data": "reviews.csv", "backbone": "hub/bert", "segment_length": None, "segments": 2}
    settings |= {"memory": 4, "depth": "full", "seed": 0}
    (run / "config.yaml").write_text(
        "\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items())
    )
    records = [{"step": 10, "epoch": 1.0, "loss": 0.7, "rate": 1e-5}]
    records += [{"step": 10, "split": "valid", "loss": 0.6, "accuracy": 0.5, "f1": 0.25}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    data = page(capsys, "tuned", "tuned/curves.html")
    assert [chart["quantity"] for chart in data["charts"]] == ["training loss", "validation f1"]
    assert data["charts"][1]["curves"][0]["mean"] == [0.25]
    assert data["title"] == "reviews.csv, bert, 2 segments"


def test_a_line_that_a_crash_cut_short_or_a_loss_that_is_no_number_is_passed_over(capsys, sweep):
    log = sweep / "b" / "metrics.jsonl"
    log.write_text(log.read_text() + '{"step": 99, "loss": NaN}\n[]\n{"step": 9')
    assert page(capsys, "sweep/b", "sweep/b/curves.html")["charts"][0]["curves"][0]["steps"] == [1, 2, 3, 4]


def test_mistakes_are_one_line(capsys, sweep):
    Path("empty").mkdir()
    expected = {
        "plot nothing": "folder='nothing' does not exist; name a run folder or a folder of runs",
        "plot empty": "there is no run here; name a run folder",
        "plot sweep -o curve.pdf": "out='curve.pdf' must end in .html, .png or .svg",
        "plot sweep --metric f1": "metric='f1' was not measured; choose from: accuracy, ",
        "plot sweep -o no/curve.html": "'no/curve.html' cannot be written (No such file or directory)",
    }
    (sweep / "b" / "metrics.jsonl").unlink()
    expected["plot sweep/b"] = "'sweep/b' has logged nothing yet: its metrics.jsonl has no line with a loss"
    for command, message in expected.items():
        code, out, err = rmt(capsys, command)
        assert (code, out) == (2, ""), command
        assert message in err
        assert err.count("\n") == 1
