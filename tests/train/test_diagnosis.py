"""A run that does not learn says so, and one that learns says nothing."""

import json
import math

import pytest

from rmt.experiments.recipe import resolve
from rmt.tasks.copy import Copy
from rmt.tasks.recall import Recall
from rmt.tasks.retrieval import Retrieval
from rmt.train.curriculum import Curriculum
from rmt.train.diagnosis import Diagnosis, EvaluatedStep, marginal_entropy, remedy
from rmt.train.loop import Loop
from rmt.train.probe import MemoryProbe
from tests.train.runs import Watcher, config_text, metrics, run, tiny

ENTROPY = math.log(8)
CONFIG = resolve({"device": "cpu", "rate": {"warmup": 100}})
# copy of 360 symbols in 9 segments, docs/learning.md: (update, slots apart, gradient) at borders 1 to 3
DYING = [
    (25, (0.99, 0.97, 0.94), (7e-4, 7e-4, 7e-4)),
    (75, (0.87, 0.59, 0.35), (3e-5, 4e-5, 8e-5)),
    (125, (0.48, 0.16, 0.05), (3e-6, 8e-6, 3e-5)),
    (175, (0.29, 0.07, 0.02), (1e-6, 4e-6, 2e-5)),
]
CENTRED = [
    (25, (1, 1, 1), (7e-4, 7e-4, 7e-4)),
    (125, (1, 1, 1), (2.3e-6, 2.5e-6, 4.5e-6)),
    (150, (1, 1, 1), (1.5e-6, 1.6e-6, 3.2e-6)),
]


def told(history, losses=None) -> list[tuple[int, str]]:
    """What is said of a history of probes, at which step; without other losses, all guess."""
    diagnosis, said = Diagnosis(CONFIG, ENTROPY), []
    for number, (step, slots, gradient) in enumerate(history):
        probe = MemoryProbe(list(gradient), list(slots), [0.01] * 3)
        diagnosis.probed(probe)
        loss = losses[number] if losses else ENTROPY + 1e-3
        record = diagnosis.evaluated(EvaluatedStep(step, loss, probe))
        if record:
            said.append((record["step"], record["not_learning"]))
            assert record["note"] == diagnosis.notes[record["not_learning"]]
    return said


def evaluated(losses: dict[int, float], has_answers: bool = True) -> list[tuple[int, str]]:
    """What is said of the losses of a model without memory."""
    diagnosis = Diagnosis(CONFIG, ENTROPY, has_answers)
    records = (diagnosis.evaluated(EvaluatedStep(step, loss, None)) for step, loss in losses.items())
    return [(record["step"], record["not_learning"]) for record in records if record]


def test_slots_that_collapse_are_named_once_two_evaluations_agree():
    assert told([*DYING, *[(step, *DYING[-1][1:]) for step in (225, 275)]]) == [(175, "collapsed")]


def test_a_gradient_that_dies_while_slots_stay_apart_is_named():
    assert told(CENTRED) == [(150, "dead")]


def test_nothing_is_said_of_a_run_whose_loss_has_begun_to_fall():
    assert told(DYING, [2.08, 2.05, 1.9, 1.7]) == []


def test_nothing_is_said_of_the_run_that_lived():
    """At update 150, warm-up 400, and at a plateau before it learns."""
    history = [(0, (0.99, 0.97, 0.94), (7e-4,) * 3)]
    history += [(step, (0.89, 0.63, 0.39), (6e-5, 7e-5, 1e-4)) for step in range(100, 600, 100)]
    assert told(history) == []


def test_a_loss_that_stays_at_the_entropy_is_named_long_after_the_warm_up():
    assert evaluated(dict.fromkeys(range(100, 700, 100), ENTROPY)) == []
    assert evaluated(dict.fromkeys(range(100, 1000, 100), ENTROPY)) == [(700, "guessing")]


def test_a_loss_that_stays_above_half_the_entropy_is_named_too():
    """Retrieval settles on one of the values that were shown: ln 4 of ln 10."""
    losses = {100: ENTROPY, **dict.fromkeys(range(200, 1200, 100), 0.6 * ENTROPY)}
    assert evaluated(losses) == [(800, "stalled")]
    assert evaluated(losses, has_answers=False) == []  # the loss of a text ends somewhere


def test_a_run_has_its_patience_from_where_the_last_stage_of_its_curriculum_began():
    diagnosis, called = Diagnosis(CONFIG, ENTROPY), []
    for step in range(100, 3000, 100):
        began = 1500 if step >= 1500 else None
        if diagnosis.evaluated(EvaluatedStep(step, 0.6 * ENTROPY, None), began):
            called.append(step)
    assert called == [2100]


def test_nothing_is_said_within_a_warm_up_behind_which_the_last_stage_counts():
    diagnosis = Diagnosis(CONFIG, ENTROPY)
    assert [diagnosis.evaluated(EvaluatedStep(step, ENTROPY, None), 100) for step in (20, 40, 60)] == [
        None
    ] * 3


def test_what_a_loss_was_before_the_last_stage_is_no_measure_of_progress():
    """A short input may be learned so well that the whole one is worse for long, and still learned."""
    diagnosis = Diagnosis(CONFIG, ENTROPY)
    for step in range(100, 1500, 100):
        assert diagnosis.evaluated(EvaluatedStep(step, 0.55 * ENTROPY, None), None) is None
    for number, step in enumerate(range(1500, 3000, 100)):
        loss = (0.95 - 0.02 * number) * ENTROPY
        assert diagnosis.evaluated(EvaluatedStep(step, loss, None), 1500) is None


@pytest.mark.parametrize("stop", [None, 7, 9], ids=["at-once", "resumed-in-it", "resumed-later"])
def test_a_run_is_judged_by_its_last_stage_also_when_it_was_resumed(tmp_path, monkeypatch, stop):
    """Nothing is learned; the whole task comes at update 5, and patience is for 4 updates."""
    monkeypatch.setattr("rmt.train.diagnosis.PATIENT_UPDATES", 4)
    earned = iter([False, False, False, False, True])
    monkeypatch.setattr(Curriculum, "trained", lambda self, *_: promote(self, next(earned, False)))
    config = tiny(
        model={"memory": {"size": 0}},
        optimizer={"name": "adam", "lr": 1e-9},
        train={"steps": 12, "log_every": 1, "save_every": 1, "evaluate_every": 1},
        curriculum={"over": "length", "promote_at": 1.0, "growth": 9.0},
    )
    if stop:
        run(config, tmp_path, stop=stop)
    run(config, tmp_path)
    assert [line["step"] for line in metrics(tmp_path) if "not_learning" in line] == [9]


def promote(curriculum: Curriculum, earned: bool) -> bool:
    """On to the whole task, if that is earned."""
    curriculum.number += earned
    return earned


def test_a_slow_fall_and_a_solved_task_are_no_plateaus():
    assert evaluated({step: ENTROPY * 0.97 ** (step / 100) for step in range(100, 2000, 100)}) == []
    assert evaluated(dict.fromkeys(range(100, 2000, 100), 0.001)) == []


@pytest.mark.parametrize(
    ("task", "entropy"),
    [(Copy(length=4, symbols=8), math.log(8)), (Recall(), math.log(10)), (Retrieval(), math.log(10))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_entropy_is_that_of_the_targets_under_the_loss(task, entropy):
    assert marginal_entropy(task, 1000) == pytest.approx(entropy, abs=0.01)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({}, "--rate.warmup 200, --matrix_lr 0.005, a larger --batch, or shorter inputs first"),
        ({"optimizer": {"name": "adamw"}}, "--rate.warmup 200, --lr 0.0005"),
        ({"task": {"name": "retrieval"}}, "--matrix_lr 0.005, or a larger --batch"),
        ({"task": {"name": "quadratic"}}, "--matrix_lr 0.005, or a larger --batch"),
        ({"recipe": "paper"}, "--recipe modern"),
        ({"preset": "baseline"}, "carries nothing from segment to segment"),
        ({"preset": "transformer_xl"}, "a cache of 8 in 2 layers"),
    ],
)
def test_what_to_try_depends_on_the_run(settings, part):
    assert part in remedy(resolve({"device": "cpu", **settings}))


def test_a_note_is_warned_of_and_logged_and_kept_over_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("rmt.train.diagnosis.ALIKE", 2.0)  # all slots count as alike
    monkeypatch.setattr("rmt.train.diagnosis.GUESSING", 0.0)  # every loss as a guess
    _, watcher = run(tiny(), tmp_path, stop=10)
    result, resumed = run(tiny(), tmp_path)
    (note,) = (line for line in metrics(tmp_path) if "not_learning" in line)
    assert (note["step"], note["not_learning"]) == (8, "collapsed")
    assert note["note"] in watcher.messages
    assert note["note"] not in resumed.messages
    assert result["notes"] == json.loads((tmp_path / "result.json").read_text())["notes"] == [note["note"]]


def test_what_a_log_says_is_what_was_known_when_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr("rmt.train.diagnosis.ALIKE", 2.0)
    monkeypatch.setattr("rmt.train.diagnosis.GUESSING", 0.0)
    loop = Loop(tiny(curriculum={"over": "length", "promote_at": 0.05}), tmp_path, Watcher())
    (tmp_path / "config.yaml").write_text(config_text(loop.config))
    loop.run()
    known = loop.checkup.diagnosis
    recalled = Diagnosis(known.config, known.entropy, known.has_answers)
    recalled.recall(loop.log.records())
    assert recalled == known
    assert known.notes
    assert [evaluation.step for evaluation in known.evaluations if evaluation.probe] == [4, 8, 12]


@pytest.mark.parametrize(
    "record",
    [
        {"split": "valid"},
        {"split": "valid", "loss": "low"},
        {"memory_gradient": [1.0]},
        {"memory_gradient": [], "slots_apart": [], "inputs_apart": []},
        {"memory_gradient": 1.0, "slots_apart": [None], "inputs_apart": ["1"]},
    ],
    ids=str,
)
def test_lines_that_are_not_whole_are_passed_over(record):
    diagnosis = Diagnosis(CONFIG, ENTROPY)
    diagnosis.recall([{"step": 4, **record}])
    assert diagnosis == Diagnosis(CONFIG, ENTROPY)


@pytest.mark.slow
def test_a_run_that_dies_on_a_cpu_says_so_and_one_that_learns_says_nothing(tmp_path, monkeypatch):
    for task in (Copy, Recall):
        monkeypatch.setattr(task, "sizes", {"train": 1000, "valid": 16, "test": 16})
    common = {"device": "cpu", "threads": 1, "precision": "32-true"}
    died, heard = run(
        resolve(
            {
                "task": {"name": "copy", "length": 60, "segments": 9},
                "model": {"layers": 4, "memory": {"size": 20}},
                "optimizer": {"matrix_lr": 0.02},
                "rate": {"warmup": 100},
                "train": {"batch": 4, "steps": 200, "evaluate_every": 40, "evaluate_samples": 16},
                **common,
            }
        ),
        tmp_path / "died",
    )
    assert died["notes"] == [text for text in heard.messages if "memory" in text]
    assert "the slots of memory have collapsed" in died["notes"][0]
    task = {"name": "recall", "length": 4, "segments": 3, "options": {"delay": 4}}
    learned, _ = run(
        resolve({"task": task, "train": {"steps": 600, "batch": 32, "target": 0.95}, **common}),
        tmp_path / "learned",
    )
    assert learned["value"] > 0.9
    assert learned["notes"] == []
