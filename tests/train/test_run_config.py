"""The configuration of a run refuses what cannot be meant, wherever it comes from."""

from types import SimpleNamespace

import pytest

from rmt.config import leaves
from rmt.errors import ConfigError
from rmt.tasks.copy import Copy
from rmt.text.task import Text
from rmt.train.check import check_run
from rmt.train.config import (
    BPTTConfig,
    CurriculumConfig,
    OptimizerConfig,
    RateConfig,
    RunConfig,
    TaskConfig,
    TrainConfig,
    build_task,
)


def test_every_setting_says_what_it_means():
    assert [leaf.name for leaf in leaves(RunConfig) if not leaf.help] == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BPTTConfig(depth=-1), "bptt.depth=-1 must be at least 0"),
        (lambda: BPTTConfig(schedule="sliding"), "bptt.depth=full does not go with bptt.schedule=sliding"),
        (lambda: BPTTConfig(replay_from="latest"), "bptt.replay_from=latest has no effect without"),
        (lambda: TaskConfig(shuffle=True), "task.shuffle=True has no effect without task.source=fixed"),
        (lambda: TaskConfig(options={"length": 3}), "task.options has length=3; give it as task.length=3"),
        (lambda: OptimizerConfig(lr=-1.0), "optimizer.lr=-1.0 must be above 0"),
        (lambda: OptimizerConfig(beta2=1.0), "optimizer.beta2=1.0 must be at least 0 and below 1"),
        (
            lambda: OptimizerConfig(name="adam", matrix_lr=1.0),
            "optimizer.matrix_lr=1.0 has no effect without",
        ),
        (lambda: OptimizerConfig(name="adam", weight_decay=1.0), "optimizer.weight_decay=1.0 has no effect"),
        (lambda: RateConfig(patience=3), "rate.patience=3 has no effect without rate.schedule=plateau"),
        (lambda: RateConfig(warmup=-1), "rate.warmup=-1 must be at least 0"),
        (lambda: CurriculumConfig(over="length", start=0), "curriculum.start=0 must be above 0"),
        (lambda: CurriculumConfig(promote_at=0.5), "curriculum.promote_at=0.5 has no effect without"),
        (lambda: TrainConfig(keep=0), "train.keep=0 must be above 0"),
        (lambda: TrainConfig(target=0.0), "train.target=0.0 must be above 0"),
        (
            lambda: check_run(RunConfig(train=TrainConfig(target=1.5)), Copy),
            "train.target=1.5 must be above 0 and at most 1",
        ),
        (
            lambda: check_run(RunConfig(task=TaskConfig(reset=3)), Copy),
            "task.reset=3 has no effect on task 'copy'; leave it out",
        ),
        (
            lambda: check_run(RunConfig(task=TaskConfig(name="text", segments=5)), Text),
            "task.segments=5 has no effect on task 'text'; leave it out",
        ),
        (
            lambda: build_task(TaskConfig(name="copy", data="book.txt")),
            "task.data=book.txt has no effect on task 'copy'; leave it out",
        ),
        (lambda: RunConfig(seed=-1), "seed=-1 must be 0 to 4294967295"),
        (
            lambda: RunConfig(task=TaskConfig(source="fixed"), curriculum=CurriculumConfig(over="length")),
            "curriculum.over=length has no effect with task.source=fixed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_the_largest_seed_can_be_used():
    from rmt.documents.language_text import span_order
    from rmt.train.feed import SequenceFeed

    config = RunConfig(seed=2**32 - 1)
    feed = SimpleNamespace(config=config, order=(-1, None))
    assert sorted(SequenceFeed.shuffled(feed, 10**6, 7).tolist()) == [*range(7)]
    assert sorted(span_order(config.seed, 10**6, 7, 3)[1]) == [*range(7)]
