"""`rmt train --seeds`: many runs by one command, each a run like any other."""

import json

import pytest

from tests.cli.command import TRAIN, rmt

SEEDS = f"{TRAIN} --seeds 3 --seed 5"


def test_seeds_print_their_lines_and_end_with_each_result_and_the_mean(capsys, tmp_path):
    code, out, err = rmt(capsys, f"{SEEDS} --out run")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines.pop(0) == "rmt seed 5  32-true on the CPU"
    assert [line.split("  ")[:2] for line in lines[:6]] == [
        [f"rmt seed {seed}", f"step {step}"] for step in (2, 4) for seed in (5, 6, 7)
    ]
    assert lines[6] == "finished: run"
    results = [
        json.loads((tmp_path / "run" / f"seed-{seed}" / "result.json").read_text()) for seed in (5, 6, 7)
    ]
    values = [result["value"] for result in results]
    assert lines[7:10] == [
        f"seed {seed}  accuracy {value:.4f}  4 steps" for seed, value in zip((5, 6, 7), values, strict=True)
    ]
    mean = sum(values) / 3
    deviation = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    assert lines[10:] == [
        f"accuracy {mean:.4f} ± {deviation:.4f} on the test split, mean and standard deviation of 3 seeds"
    ]


def test_each_seed_is_a_run_that_the_other_commands_know(capsys):
    rmt(capsys, f"{SEEDS} --out run --quiet")
    listed = [json.loads(line) for line in rmt(capsys, "runs run --json").out.splitlines()]
    assert [(row["run"], row["seed"], row["steps"]) for row in listed] == [
        (f"run/seed-{seed}", seed, 4) for seed in (5, 6, 7)
    ]
    assert "± " in rmt(capsys, "report run").out
    assert rmt(capsys, "evaluate run/seed-6").code == 0
    again = rmt(capsys, f"{TRAIN} --seed 6 --out run/seed-6 --quiet")
    assert again.out.startswith("already finished: run/seed-6\n")


def test_finished_seeds_are_kept_and_more_are_trained_beside_them(capsys, tmp_path):
    finished = rmt(capsys, f"{TRAIN} --seeds 2 --quiet").out.partition("\n")[0]
    folder = tmp_path / finished.removeprefix("finished: ")
    assert folder.name.startswith("tests.train.runs.Echo-3-3-rmt-modern-")
    before = (folder / "seed-0" / "result.json").stat().st_mtime_ns
    assert rmt(capsys, f"{TRAIN} --seeds 2").out.startswith(f"already {finished}\n")
    code, out, _ = rmt(capsys, f"{TRAIN} --seeds 3")
    assert code == 0
    assert f"\n{finished}\n" in out
    assert {line.split("  ")[0] for line in out.splitlines() if "  step " in line} == {"rmt seed 2"}
    assert (folder / "seed-0" / "result.json").stat().st_mtime_ns == before
    assert {path.name for path in folder.iterdir()} == {"seed-0", "seed-1", "seed-2"}


def test_restart_trains_every_seed_anew(capsys, tmp_path):
    rmt(capsys, f"{SEEDS} --out run --quiet")
    code, _, err = rmt(capsys, f"{SEEDS} --out run --quiet --restart --steps 3")
    assert (code, err) == (0, "")
    for seed in (5, 6, 7):
        assert json.loads((tmp_path / "run" / f"seed-{seed}" / "result.json").read_text())["steps"] == 3


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--seeds 0", "seeds=0 must be 1 to 4096"),
        ("--seeds -2", "seeds=-2 must be 1 to 4096"),
        ("--seeds many", "seeds='many' is not a whole number"),
        (
            "--seeds 2 --rate.schedule plateau",
            "rate.schedule=plateau does not go with many seeds at once; train them one by one with --seed, "
            "or use another setting",
        ),
        ("--seeds 2 --seed 4294967295", "seed=4294967296 must be 0 to 4294967295"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_folder(capsys, tmp_path, options, line):
    assert rmt(capsys, f"{TRAIN} --out run {options}") == (2, "", f"rmt: {line}\n")
    assert not (tmp_path / "run").exists()


def test_seeds_of_another_configuration_are_refused_before_anything_is_made(capsys, tmp_path):
    rmt(capsys, f"{TRAIN} --out run/seed-6 --seed 6 --quiet --steps 3")
    code, _, err = rmt(capsys, f"{SEEDS} --out run --quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "out='run/seed-6' holds a run with train.steps=3, not 4" in err
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"seed-6"}


def test_a_single_run_is_refused_in_a_folder_of_seeds_which_go_on(capsys):
    rmt(capsys, f"{SEEDS} --out run --quiet")
    code, _, err = rmt(capsys, f"{TRAIN} --out run --quiet")
    assert (code, err.count("\n")) == (2, 1)
    assert "out='run' holds many seeds; say how many with --seeds" in err
    assert rmt(capsys, f"{SEEDS} --out run --quiet").code == 0


IN_STAGES = f"{TRAIN} --curriculum.over segments --curriculum.start 1 --seeds 2 --out run --quiet"


def test_seeds_in_a_curriculum_go_on_in_the_number_format_of_those_that_are_there(capsys, tmp_path):
    assert rmt(capsys, f"{IN_STAGES} --precision 64-true").code == 0
    assert rmt(capsys, IN_STAGES.replace("--seeds 2", "--seeds 3")).code == 0
    configs = [(tmp_path / "run" / f"seed-{seed}" / "config.yaml").read_text() for seed in range(3)]
    assert all("precision: 64-true" in config for config in configs)
