"""From easy to hard: the stages before the whole task, and what earns the next."""

from math import ceil

import pytest

from rmt.errors import ConfigError
from rmt.tasks import make_task
from rmt.train.config import CurriculumConfig
from rmt.train.curriculum import Curriculum


def test_without_a_curriculum_there_is_the_whole_task_only():
    task = make_task("copy", length=8)
    curriculum = Curriculum(CurriculumConfig(), task, segments=3)
    assert [(stage.task, stage.length) for stage in curriculum.stages] == [(task, 8)]
    assert curriculum.finished


def test_short_inputs_have_as_many_segments_as_the_whole():
    curriculum = curriculum_over("length", start=2, growth=2.0)
    assert [stage.task.length for stage in curriculum.stages] == [2, 4, 8]
    assert [stage.task.total_length // stage.length for stage in curriculum.stages] == [3, 3, 3]
    assert len({stage.task.vocabulary for stage in curriculum.stages}) == 1


def test_the_length_of_retrieval_is_its_number_of_pairs():
    curriculum = Curriculum(
        CurriculumConfig(over="length", start=1), make_task("retrieval", pairs=4), segments=2
    )
    assert [stage.task.pairs for stage in curriculum.stages] == [1, 2, 4]


def test_inputs_too_short_for_as_many_segments_have_some_of_the_final_length():
    task, config = make_task("retrieval", pairs=4), CurriculumConfig(over="length", start=2, growth=1.2)
    stages = Curriculum(config, task, segments=5).stages
    assert [(stage.task.total_length, stage.length) for stage in stages] == [(6, 2), (8, 2), (10, 2)]


@pytest.mark.parametrize(
    ("pairs", "segments", "lengths"),
    [
        (4, 1, [6, 8, 10]),
        (4, 2, [4, 4, 5]),  # 6 | 2 would be a longer segment than the whole has
        (4, 3, [2, 3, 4]),
        (5, 4, [3, 2, 3, 3]),  # two pairs are too short for four segments
        (5, 2, [4, 6, 5, 6]),
    ],
)
def test_short_inputs_have_their_question_alone_where_they_can_and_no_longer_segments(
    pairs, segments, lengths
):
    task, config = make_task("retrieval", pairs=pairs), CurriculumConfig(over="length", start=2, growth=1.2)
    stages = Curriculum(config, task, segments).stages
    assert [stage.length for stage in stages] == lengths
    assert max(lengths) == lengths[-1]
    counts = [ceil(stage.task.total_length / stage.length) for stage in stages]
    assert counts[1:] == (pairs - 2) * [segments]


def test_segments_grow_over_the_whole_input():
    curriculum = curriculum_over("segments", start=1, growth=2.0, segments=6)
    assert [stage.task.length for stage in curriculum.stages] == [8, 8, 8, 8]
    assert [stage.length for stage in curriculum.stages] == [24, 12, 6, 4]


def test_numbers_of_segments_that_do_not_fit_are_passed_over():
    curriculum = curriculum_over("segments", start=6, growth=1.01, segments=12)
    assert [stage.length for stage in curriculum.stages] == [4, 3, 2]


def test_a_slow_growth_still_grows_by_one():
    curriculum = curriculum_over("length", start=5, growth=1.1)
    assert [stage.task.length for stage in curriculum.stages] == [5, 6, 7, 8]


def test_the_accuracy_asked_for_earns_one_stage_and_the_last_stage_is_the_end():
    curriculum = curriculum_over("length", start=2, growth=2.0, promote_at=0.8)
    earned = [curriculum.trained(accuracy) for accuracy in (0.79, 0.8, 0.5, 1.0, 1.0)]
    assert earned == [False, True, False, True, False]
    assert curriculum.finished
    assert curriculum.stage.task.length == 8


def test_what_earns_no_promotion_is_trained_on_the_whole_task_when_its_time_is_over():
    curriculum = curriculum_over("length", start=2, growth=2.0, until=0.6)
    assert not curriculum.trained(0.1)
    begun = [curriculum.is_over(done) for done in (0.2, 0.59, 0.6, 0.8)]
    assert begun == [False, False, True, False]
    assert curriculum.finished


def test_without_a_limit_short_inputs_are_trained_to_the_end():
    curriculum = curriculum_over("length", start=2)
    assert not any(curriculum.is_over(done / 10) for done in range(11))


@pytest.mark.parametrize("start", [9, 100])
def test_a_start_beyond_the_task_is_refused(start):
    with pytest.raises(ConfigError, match=rf"curriculum\.start={start} must be 1 to 8, the task's length"):
        curriculum_over("length", start=start)


def test_a_task_without_a_length_cannot_grow_in_length():
    with pytest.raises(
        ConfigError, match=r"curriculum\.over=length: .*'quadratic' have one length; use segments"
    ):
        Curriculum(CurriculumConfig(over="length"), make_task("quadratic"), segments=2)


def curriculum_over(over: str, segments: int = 3, **settings: float) -> Curriculum:
    return Curriculum(CurriculumConfig(over=over, **settings), make_task("copy", length=8), segments)
