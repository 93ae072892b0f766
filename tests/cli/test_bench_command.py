"""`rmt bench`: names, settings of one's own, one page, one line for every mistake."""

import json
import sys
from pathlib import Path

import pytest
import torch
import yaml

from rmt.bench import measure, start, stream
from rmt.bench.configurations import CONFIGURATIONS, KINDS, PAPER, SMALL, VARIANTS
from rmt.bench.text import made_text
from rmt.cli import bench, bench_kinds
from rmt.cli.bench import subject
from rmt.cli.front import names_of
from rmt.errors import ConfigError
from rmt.train.config import RunConfig
from rmt.yamlfile import write_yaml
from tests.cli.command import TINY, TRAIN, rmt
from tests.cli.test_bad_input import assert_refused
from tests.gpus import pretend

ROOT = Path(__file__).parents[2]
SMALLEST = {"layers": 1, "heads": 1, "head_width": 4, "width": 8, "inner_width": 8}
ECHO = f"tests.train.runs:Echo {TINY} --updates 1"
MISTAKES = {
    "bench copy-24-9x9": ["unknown configuration 'copy-24-9x9'", "did you mean 'copy-24-9x8'?"],
    "bench coppy": ["unknown configuration 'coppy'", "did you mean 'copy'?"],
    "bench copy --compile fast": ["compile='fast'", "auto, record, off"],
    "bench copy --paths slow": ["paths='slow'", "both, eager, fast"],
    "bench copy --updates 0": ["updates=0", "at least 1"],
    "bench copy --updates many": ["updates='many'", "a whole number"],
    "bench text": ["data is missing", "--data"],
    "bench copy --growth": ["growth", "copy", "name a configuration of text"],
    "bench text-small --growth 1,x": ["growth='1,x'", "a list of whole numbers"],
    "bench text-small --growth 0": ["growth=0", "at least 1"],
    "bench copy reverse --growth": ["growth", "not of 2", "give one NAME"],
    "bench text-small --growth --seeds 2": ["seeds=2", "--growth", "leave one out"],
    "bench copy --seeds -1": ["seeds=-1", "at least 0"],
    "bench copy --segmnts 3": ["unknown argument '--segmnts'", "did you mean '--segments'?"],
    "bench copy --model baseline --memory 8": ["memory=8 has no effect", "leave it out"],
    "bench --config missing.yaml": ["'missing.yaml'", "No such file"],
    "bench stream --batch 4": ["train has no effect on stream", "leave one of them out"],
    "bench copy start --batch 4": ["train has no effect on start", "leave one of them out"],
    "bench stream --seeds 2": ["seeds=2 has no effect on stream"],
    "bench stream start --paths eager": ["paths=eager has no effect on stream"],
    "bench start --updates 3": ["updates=3 has no effect on start"],
    "bench stream --growth": ["growth is not measured of stream", "name a configuration of text"],
    "bench strem": ["unknown configuration 'strem'", "did you mean 'stream'?"],
    "bench copy --task.name reverse": ["task.name=reverse", "NAME copy", "leave one out"],
}


@pytest.fixture(autouse=True)
def small_product(monkeypatch):
    monkeypatch.setitem(measure.PRODUCT, "cpu", (16, torch.float32))


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line(capsys, tmp_path, command):
    assert_refused(capsys, f"{command} --device cpu", MISTAKES[command])
    assert not list(tmp_path.iterdir())


def test_the_fast_path_is_for_a_gpu(capsys):
    assert_refused(capsys, "bench copy --paths fast --device cpu", ["paths=fast", "CPU", "leave it out"])


@pytest.mark.parametrize(
    ("paths", "compile", "ways"),
    [
        ("both", "auto", ["off", "auto"]),
        ("both", "record", ["off", "record"]),
        ("both", "off", ["off"]),
        ("eager", "auto", ["off"]),
        ("fast", "auto", ["auto"]),
        ("fast", "record", ["record"]),
    ],
)
def test_compile_names_the_fast_path_and_paths_what_is_measured(paths, compile, ways):
    assert bench.ways_of(bench.BenchOptions(paths=paths), compile, "cuda") == ways
    if paths != "fast":
        assert bench.ways_of(bench.BenchOptions(paths=paths), compile, "cpu") == ["off"]


def test_there_is_no_fast_path_where_it_is_off():
    with pytest.raises(ConfigError, match="paths=fast does not go with compile=off; leave one out"):
        bench.ways_of(bench.BenchOptions(paths="fast"), "off", "cuda")


def test_the_list_has_every_name(capsys):
    code, out, err = rmt(capsys, "bench --list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*CONFIGURATIONS, *KINDS]


@pytest.mark.parametrize("name", [*SMALL, *PAPER])
def test_every_named_configuration_is_one(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    made = subject(name, {"train": {"batch": 2}}, "cpu", tmp_path)
    assert made.config.preset == "rmt"
    assert made.config.precision == "32-true"
    assert made.config.train.batch == 2
    if CONFIGURATIONS[name].symbols:
        assert made.config.model.vocabulary == CONFIGURATIONS[name].symbols
        assert made.config.model.memory.size == 10


# preset, memory, cache, dropout, norm, schedule, optimizer
VARIED = {
    "copy-24-9x8-dropout": ("rmt", 8, 0, 0.1, "pre", "sequence", "muon"),
    "copy-24-9x8-paper": ("rmt", 8, 0, 0.1, "post", "sequence", "adam"),
    "enwik8-rotary-dropout": ("rmt", 10, 0, 0.1, "pre", "chunked", "muon"),
    "enwik8-relative-dropout": ("rmt", 10, 0, 0.1, "pre", "chunked", "muon"),
    "enwik8-relative-xl": ("transformer_xl", 0, 128, 0.0, "pre", "chunked", "muon"),
    "enwik8-relative-xl-rmt": ("transformer_xl_rmt", 10, 128, 0.0, "pre", "chunked", "muon"),
    "enwik8-relative-paper": ("rmt", 10, 0, 0.1, "post", "sliding", "adam"),
}


def test_every_variant_has_its_line_here():
    assert VARIED.keys() == VARIANTS.keys()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_what_its_name_says_and_else_like_the_one_beside_it(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    config, other = (subject(each, {}, "cpu", tmp_path).config for each in (name, VARIANTS[name].beside))
    model = config.model
    assert VARIED[name] == (
        config.preset,
        model.memory.size,
        model.cache.size,
        model.dropout,
        model.norm,
        config.bptt.schedule,
        config.optimizer.name,
    )
    assert (model.layers, model.width, model.positions) == (
        other.model.layers,
        other.model.width,
        other.model.positions,
    )
    assert (config.train.batch, config.bptt.depth, config.task.segments, config.task.segment_length) == (
        other.train.batch,
        other.bptt.depth,
        other.task.segments,
        other.task.segment_length,
    )


@pytest.mark.parametrize(
    ("name", "layers", "segments", "batch"),
    [("copy-24-9x8", 4, 9, 128), ("copy-24-6x12", 4, 6, 32), ("quadratic-6", 6, 6, 128)],
)
def test_sequences_are_as_in_the_paper(name, layers, segments, batch, tmp_path):
    config = subject(name, {}, "cpu", tmp_path).config
    assert (config.model.layers, config.task.segments, config.train.batch) == (layers, segments, batch)


def test_on_a_gpu_numbers_are_bfloat16_unless_told_otherwise(tmp_path, monkeypatch):
    pretend(monkeypatch, "NVIDIA H200")
    assert subject("copy-24-9x8", {}, "cuda", tmp_path).config.precision == "bf16-mixed"
    given = {"precision": "32-true"}
    assert subject("copy-24-9x8", given, "cuda", tmp_path).config.precision == "32-true"
    pretend(monkeypatch, "Tesla T4")
    assert subject("copy-24-9x8", {}, "cuda", tmp_path).config.precision == "32-true"
    with pytest.raises(ConfigError, match="precision=bf16-mixed: Tesla T4 does not multiply in bfloat16"):
        subject("copy-24-9x8", {"precision": "bf16-mixed"}, "cuda", tmp_path)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_named_configuration_has_the_schedule_of_its_recipe(name, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    is_text = CONFIGURATIONS[name].symbols > 0
    schedules = {"modern": ("chunked", "stored"), "paper": ("sliding", "latest")}
    for recipe, schedule in schedules.items():
        settings = {"recipe": recipe, "train": {"batch": 2}}
        bptt = subject(name, settings, "cpu", tmp_path).config.bptt
        assert (bptt.schedule, bptt.replay_from) == (schedule if is_text else ("sequence", "stored"))
        assert bptt.depth == ("full" if not is_text else 3 if name.startswith("wt103") else 2)


@pytest.mark.parametrize("more", ["", "--growth 1,2"], ids=["rows", "growth"])
def test_the_papers_recipe_is_measured(capsys, monkeypatch, more):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    model = "--model.layers 1 --model.width 8 --model.heads 1 --batch 2 --task.segment_length 4"
    answer = rmt(capsys, f"bench text-small --recipe paper {model} {more} --updates 1 --device cpu")
    assert answer.code == 0, answer.err
    assert "ms per step" in answer.out


def test_a_task_is_measured_with_the_options_of_train(capsys, tmp_path):
    answer = rmt(capsys, f"bench {ECHO} --out out")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("tests.train.runs:Echo  eager  ")
    names = sorted(path.name[10:] for path in (tmp_path / "out").iterdir())
    assert names == [f"-bench-tests.train.runs.Echo.{ending}" for ending in ("json", "md", "png")]
    page = next((tmp_path / "out").glob("*.md")).read_text()
    assert "1 layers × 8" in page
    assert "| tests.train.runs:Echo | eager |" in page


def test_a_config_file_is_a_configuration(capsys, tmp_path):
    printed = yaml.safe_load(rmt(capsys, f"{TRAIN} --print_config").out)
    settings = {name: value for name, value in printed.items() if name in names_of(RunConfig)}
    Path("mine.yaml").write_text(write_yaml(settings))
    answer = rmt(capsys, "bench --config mine.yaml --updates 1")
    assert answer.code == 0, answer.err
    assert next((tmp_path / "benchmarks").glob("*.md")).name.endswith("-bench-mine.md")


def test_growth_is_a_page_of_its_own(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )
    model = "--model.layers 1 --model.width 8 --model.heads 1 --batch 2 --task.segment_length 4"
    answer = rmt(capsys, f"bench text-small {model} --growth 1,2 --updates 1 --device cpu")
    assert answer.code == 0, answer.err
    assert [line.split("  ")[0] for line in answer.out.splitlines()[:4]] == ["segments 1", "segments 2"] * 2
    page = next((tmp_path / "benchmarks").glob("*-bench-growth-text-small.md")).read_text()
    assert "ms per segment; no point is further than" in page


def test_without_names_a_cpu_gets_the_small_ones_and_a_gpu_the_papers(capsys):
    invocation = bench.COMMAND.collect([])
    assert bench.chosen(invocation, "cpu") == ([*SMALL], "small")
    assert bench.chosen(invocation, "cuda") == ([*PAPER], "paper")


def test_without_matplotlib_there_is_no_picture_and_a_word_about_it(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # it is there, and cannot be loaded
    answer = rmt(capsys, f"bench {ECHO}")
    assert answer.code == 0, answer.err
    assert "not drawn: pictures need matplotlib; install it with: pip install" in answer.out
    assert not list((tmp_path / "benchmarks").glob("*.png"))


TINY_TEXT = (
    "--model.layers 1 --model.width 8 --model.heads 1 --model.head_width 4 --batch 2 "
    "--task.segment_length 4 --updates 1 --device cpu"
)


def made_small(monkeypatch):
    monkeypatch.setattr(
        "rmt.bench.text.made_text", lambda symbols, folder, count: made_text(symbols, folder, 20_000)
    )


def test_two_that_are_named_together_are_compared(capsys, tmp_path, monkeypatch):
    made_small(monkeypatch)
    answer = rmt(capsys, f"bench enwik8-relative enwik8-relative-xl {TINY_TEXT}")
    assert answer.code == 0, answer.err
    lines = [line for line in answer.out.splitlines() if "beside" in line]
    assert [line.split(":")[0] for line in lines] == [
        f"enwik8-relative-xl  {way}  beside enwik8-relative" for way in ("eager", "evaluation")
    ]
    numbers = json.loads(next((tmp_path / "benchmarks").glob("*.json")).read_text())
    assert [*numbers["configurations"]] == ["enwik8-relative", "enwik8-relative-xl"]
    assert numbers["configurations"]["enwik8-relative-xl"]["preset"] == "transformer_xl"
    assert {"commit", "source", "torch", "triton", "device"} <= numbers["environment"].keys()


def test_one_alone_says_that_it_was_not_compared(capsys, monkeypatch):
    made_small(monkeypatch)
    answer = rmt(capsys, f"bench enwik8-relative-paper {TINY_TEXT}")
    assert answer.code == 0, answer.err
    assert "enwik8-relative-paper  not compared: enwik8-relative was not measured; name both" in answer.out


def test_kinds_are_rows_beside_configurations(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(stream.SIZES, "cpu", stream.StreamSize(6, SMALLEST))
    answer = rmt(capsys, "bench stream --updates 1 --device cpu")
    assert answer.code == 0, answer.err
    assert [line.split("  ")[:2] for line in answer.out.splitlines()[:2]] == [
        ["stream", "1 row"],
        ["stream", "32 rows"],
    ]
    assert "not compared" not in answer.out
    page = next((tmp_path / "benchmarks").glob("*-bench-stream.md")).read_text()
    assert (
        "- stream: a session of an RMT, 1 layers × 8, rotary positions, memory 10, in segments of 6" in page
    )


def test_start_runs_the_command_as_a_user_does(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(start, "STARTS", {"cold": 1})
    monkeypatch.setitem(bench_kinds.STARTED, "cpu", {"start-echo": TRAIN})
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where the task is
    answer = rmt(capsys, "bench start --device cpu")
    assert answer.code == 0, answer.err
    numbers = json.loads(next((tmp_path / "benchmarks").glob("*-bench-start.json")).read_text())
    times = {row["way"]: row["step"]["median"] for row in numbers["rows"]}
    assert 0 < times["first update, cold"] < times["whole command, cold"]
    assert not list((tmp_path / "benchmarks").glob("*.png"))
    page = next((tmp_path / "benchmarks").glob("*-bench-start.md")).read_text()
    assert f"- start-echo: rmt {TRAIN}" in page


def test_what_start_runs_on_a_gpu_is_a_command(capsys):
    for words in (*bench_kinds.STARTED["cuda"].values(), *bench_kinds.STARTED["cpu"].values()):
        needs_data = " --data book.txt" if " text " in words else ""
        Path("book.txt").write_text("a book of words " * 2000)
        answer = rmt(capsys, f"{words}{needs_data} --print_config")
        assert answer.code == 0, answer.err


def test_every_kind_can_be_measured():
    assert bench_kinds.MEASURED.keys() == KINDS.keys()
