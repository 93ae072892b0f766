"""Seeds go on from the newest step that all have; whoever has none with the others begins where it was."""

import pytest

from rmt.train.checkpoint import Checkpoints
from rmt.train.loop import Loop
from rmt.train.meeting import meet, meeting_steps
from tests.train.runs import Watcher, run, tiny


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({"a": [9, 6], "b": [6, 3]}, {"a": 6, "b": 6}),
        ({"a": [9, 6], "b": [9, 6]}, {"a": 9, "b": 9}),
        ({"a": [], "b": []}, {"a": 0, "b": 0}),
        ({"a": [12, 9], "b": [12, 9], "new": []}, {"a": 12, "b": 12, "new": 0}),
        ({"a": [12, 9], "b": [9, 6], "diverged": [2]}, {"a": 9, "b": 9, "diverged": 2}),
        ({}, {}),
    ],
)
def test_all_go_on_from_the_newest_step_that_all_have(steps, expected):
    assert meeting_steps({name: dict.fromkeys(known, False) for name, known in steps.items()}) == expected


def test_a_run_at_its_end_waits_there_unless_the_others_are_before_it():
    assert meeting_steps({"over": {8: True, 6: False}, "b": {12: False, 9: False}}) == {"over": 8, "b": 12}
    assert meeting_steps({"over": {8: True, 6: False}, "b": {6: False, 4: False}}) == {"over": 6, "b": 6}


def test_a_damaged_checkpoint_is_named_and_nobody_meets_there(tmp_path):
    loops = []
    for seed in range(2):
        run(tiny(seed=seed), tmp_path / str(seed), stop=8)
        loops.append(Loop(tiny(seed=seed), tmp_path / str(seed), Watcher()))
    assert [Checkpoints(tmp_path / str(seed)).steps() for seed in range(2)] == [[6, 4], [6, 4]]
    damaged = tmp_path / "1" / "checkpoints" / "step_6"
    (damaged / "state.safetensors").unlink()
    meet(loops)
    assert [loop.resume_up_to for loop in loops] == [4, 4]
    assert loops[0].observer.messages == ["going back from step 6 to 4, which all seeds have"]
    (warning,) = loops[1].observer.messages
    assert warning.startswith(f"checkpoint {damaged} is damaged: state.safetensors is missing")


def test_new_seeds_start_without_a_word_and_those_with_one_save_go_back_to_their_beginning(tmp_path):
    loops = []
    for seed in range(2):
        run(tiny(seed=seed), tmp_path / str(seed), stop=(4, 2)[seed])
        loops.append(Loop(tiny(seed=seed), tmp_path / str(seed), Watcher()))
    assert [Checkpoints(tmp_path / str(seed)).steps() for seed in range(2)] == [[3], []]
    meet(loops)
    assert [loop.resume_up_to for loop in loops] == [0, 0]
    for loop in loops:
        loop.resume()
        assert (loop.trainer.step, loop.checkpoints.steps()) == (0, [])
    assert loops[0].observer.messages == ["going back from step 3 to 0, which all seeds have"]
    assert loops[1].observer.messages == []
