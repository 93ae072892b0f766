"""Attention maps in the records of cells: small, checked when read, drawn as the paper's Fig. 6 and 9."""

import json
import struct
import zlib
from pathlib import Path

import pytest
import torch

from rmt.analysis.capture import capture_mean
from rmt.analysis.operations import OPERATIONS, best, findings
from rmt.config import to_dict
from rmt.errors import ConfigError
from rmt.experiments import attention_maps as recording
from rmt.experiments.attention_maps import LEVELS, attention_maps, map_of
from rmt.experiments.cell_records import load_cells
from rmt.experiments.claims import verdicts
from rmt.experiments.comparison import rows_of
from rmt.experiments.map_figures import FIGURES, INK, WHITE, png
from rmt.experiments.page import page
from rmt.experiments.recipe import resolve
from rmt.experiments.run import train
from rmt.experiments.suites import Order, plan
from rmt.experiments.tables import markdown_report
from rmt.experiments.trained_runs import TrainedRuns
from rmt.experiments.worker import LoggedRun
from rmt.train.checkpoint import load
from rmt.train.config import build_task
from tests.experiments.records import made_map, made_record, with_maps

CLAIM = "Attention shows writing and reading of memory, and rewriting where segments are many"


def settings(preset: str = "rmt", **other) -> dict:
    part = {"memory": {"size": 2}} if preset == "rmt" else {"cache": {"size": 2}}
    return {
        "task": {"name": "copy", "length": 3, "segments": 3},
        "preset": preset,
        "model": {"layers": 2, "heads": 2, "head_width": 4, "width": 8, "inner_width": 8, **part},
        "train": {"steps": 2, "batch": 4, "evaluate_samples": 8, "test_samples": 8},
        "device": "cpu",
        **other,
    }


@pytest.fixture(scope="module", params=["rmt", "transformer_xl"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / request.param
    result, _ = train(resolve(settings(request.param)), folder, LoggedRun("run"))
    return folder, result


def test_each_map_is_the_clearest_head_as_the_model_has_it(run):
    folder, result = run
    config = resolve(settings(result["model"]))
    task = build_task(config.task)
    tokens = task.split("test", recording.SAMPLES).tokens
    segments = capture_mean(load(folder), tokens, task.tokens_per_segment(3))
    maps = [map_of(json.loads(json.dumps(record))) for record in attention_maps(folder, result["config"])]
    able = [name for name, spans in OPERATIONS.items() if segments[1].block(*spans).numel()]
    assert [each.operation for each in maps] == able
    for each in maps:
        first = 0 if each.operation == "write" else 1
        later = [finding for finding in findings(segments) if finding.segment >= first]
        wanted = best(later, each.operation)
        assert each.finding[:3] == wanted[:3]
        assert each.finding[3:] == pytest.approx(wanted[3:], abs=1e-4)
        weights = torch.frombuffer(bytearray(each.levels), dtype=torch.uint8).double() / LEVELS
        exact = segments[each.segment].weights[each.head].double().flatten()
        assert (weights - exact).abs().max() <= 0.5 / LEVELS + 1e-6
        assert each.spans == segments[each.segment].spans


def test_seed_0_has_maps_in_its_record_and_other_seeds_have_none(run):
    folder, result = run
    assert TrainedRuns.slim(folder, result)["maps"] == attention_maps(folder, result["config"])
    assert "maps" not in TrainedRuns.slim(folder, result | {"seed": 1})


@pytest.mark.parametrize(
    "changed",
    [
        {"preset": "baseline", "model": {"memory": {"size": 0}}},
        {"task": {"segments": 1}},
        {"bptt": {"depth": 0}},
        {"task": {"name": "text"}},
    ],
    ids=["baseline", "one segment", "depth 0", "text"],
)
def test_what_carries_nothing_learned_between_answers_has_no_maps(changed):
    config = to_dict(resolve(settings()))
    for group, values in changed.items():
        config[group] = config[group] | values if isinstance(values, dict) else values
    assert attention_maps(Path("nowhere"), config) == []


def test_long_segments_have_no_maps(run, monkeypatch):
    folder, result = run
    monkeypatch.setattr(recording, "MOST_KEYS", 3)
    assert attention_maps(folder, result["config"]) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"operation": "dream"},
        {"segment": -1},
        {"segment": True},
        {"head": [0]},
        {"mass": "much"},
        {"spans": [0, 2, 3]},
        {"spans": [0, 10**9, 3, 2]},
        {"spans": [0, 0, 0, 0]},
        {"levels": "no base 64"},
        {"levels": recording.base64.b64encode(b"not packed").decode()},
        {"levels": recording.base64.b64encode(zlib.compress(bytes(1000))).decode()},
        {"levels": None},
    ],
    ids=lambda damage: str(damage)[:40],
)
def test_a_record_with_a_damaged_map_is_refused(damage, tmp_path):
    assert map_of(made_map("write")) is not None
    cell = plan(Order(name="figure-3", scale="tiny")).cells[1]
    record = made_record(cell, [0.9])
    record["runs"][0]["maps"] = [made_map("write") | damage]
    file = tmp_path / "cells.jsonl"
    file.write_text(json.dumps(record) + "\n")
    with pytest.raises(ConfigError, match="no list of attention maps"):
        load_cells([file], pytest.fail)


def records(scale: str, mass: float = 0.9) -> list:
    """All copies and reversals of a scale, each with the maps that its model has."""
    cells = [cell for name in ("figure-3", "figure-8") for cell in plan(Order(name=name, scale=scale)).cells]
    return [with_maps(made_record(cell, [0.99]), mass) for cell in cells]


def panels(name: str, scale: str) -> list[tuple[str, str]]:
    return [(panel.row.name, panel.map.operation) for panel in FIGURES[name](rows_of(records(scale)))]


def test_figure_6_shows_the_cells_of_the_paper():
    """Segments of 24 with memory 24, of 8 with memory 8, and a cache of 24."""
    assert panels("figure-6", "gpu") == [
        ("copy-24-3-rmt-24", "write"),
        ("copy-24-3-rmt-24", "read"),
        ("reverse-24-2-rmt-24", "write"),
        ("reverse-24-2-rmt-24", "read"),
        ("copy-24-9-rmt-8", "rewrite"),
        ("copy-24-3-transformer_xl-24", "cache"),
    ]


def test_figure_9_shows_the_cells_of_the_paper():
    """Reverse in 4 segments of 12, with memory or a cache of 6."""
    assert panels("figure-9", "gpu") == [
        ("reverse-24-4-rmt-6", "write"),
        ("reverse-24-4-rmt-6", "read"),
        ("reverse-24-4-transformer_xl-6", "mix"),
        ("reverse-24-4-transformer_xl-6", "cache"),
    ]


def test_of_two_scales_the_larger_is_drawn():
    both = rows_of(records("tiny") + records("gpu"))
    names = {panel.row.name for panel in FIGURES["figure-6"](both)}
    assert names == {name for name, _ in panels("figure-6", "gpu")}


@pytest.mark.parametrize(("mass", "word"), [(0.9, "holds"), (0.3, "undecided"), (0.1, "does not hold")])
def test_the_claim_is_judged_by_the_share_of_attention(mass, word):
    [verdict] = [each for each in verdicts(rows_of(records("gpu", mass))) if each.claim.text == CLAIM]
    assert verdict.word == word


def test_rewriting_is_asked_of_the_most_segments_only():
    made = records("gpu")
    for record in made:
        record["runs"][0]["maps"] = [each for each in record["runs"][0]["maps"] if each["operation"] != "mix"]
        for each in record["runs"][0]["maps"]:
            each["mass"] = 0.05 if each["operation"] == "rewrite" else 0.9
    [verdict] = [each for each in verdicts(rows_of(made)) if each.claim.text == CLAIM]
    refuted = {evidence.rows[0].name for evidence in verdict.evidence if evidence.holds is False}
    assert refuted == {"copy-24-9-rmt-8", "reverse-24-6-rmt-8", "retrieval-5-rmt-2"}


def test_reports_have_both_figures():
    made = records("gpu")
    html, text = page(made), markdown_report(made)
    assert html.count("data:image/png;base64,") == len(panels("figure-6", "gpu")) + 4
    for shown in (html, text):
        assert "Figure 6" in shown
        assert "Figure 9" in shown
        assert "(c) many segments: rewrite" in shown


def test_a_picture_has_the_colour_of_each_level():
    picture = png(bytes([0, LEVELS, 128, 7]), 2)
    chunks, position = {}, 8
    while position < len(picture):
        (size,) = struct.unpack(">I", picture[position : position + 4])
        kind, data = picture[position + 4 : position + 8], picture[position + 8 : position + 8 + size]
        assert picture[position + 8 + size : position + 12 + size] == struct.pack(
            ">I", zlib.crc32(kind + data)
        )
        chunks[kind], position = data, position + 12 + size
    palette = chunks[b"PLTE"]
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (2, 2)
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, LEVELS, 0, 128, 7])
    assert tuple(palette[:3]) == WHITE
    assert tuple(palette[-3:]) == INK
