"""Settings that nobody named come from the recipe, the size and the model; what is named goes before them."""

from dataclasses import replace

import numpy as np
import pytest

from rmt.config import to_dict
from rmt.core.presets import PRESETS
from rmt.errors import ConfigError
from rmt.experiments.recipe import START, merge, resolve
from rmt.tasks.copy import Copy
from rmt.train.config import CurriculumConfig


class Rare(Copy):
    """A copy of which a loss counts now and then, and none in the first example."""

    def draw(self, generator, count):
        examples = super().draw(generator, count)
        counted = examples.loss_mask & (np.arange(count) % 2 == 1)[:, None]
        return examples._replace(loss_mask=counted)


COPY = {"task": {"name": "copy", "length": 8}}


@pytest.mark.parametrize("recipe", ["modern", "modern-1", "paper"])
@pytest.mark.parametrize("name", PRESETS)
def test_a_resolved_configuration_resolves_to_itself(name, recipe):
    config = resolve({**COPY, "preset": name, "recipe": recipe})
    assert resolve(to_dict(config)) == config


@pytest.mark.parametrize(("name", "parts"), PRESETS.items())
def test_a_model_has_the_memory_and_the_cache_of_its_name(name, parts):
    model = resolve({**COPY, "preset": name, "task": {"name": "copy", "length": 8, "segments": 6}}).model
    assert (model.memory.size, model.cache.size) == tuple(4 * part for part in parts)
    assert model.memory.recurrent is model.memory.write is (name != "memory_transformer")


@pytest.mark.parametrize(
    ("settings", "cache"),
    [
        ({"preset": "transformer_xl_rmt", "recipe": "paper"}, 4 + 4),
        ({"preset": "transformer_xl_rmt", "recipe": "paper", "model": {"memory": {"size": 3}}}, 4 + 3),
        ({"preset": "transformer_xl_rmt", "model": {"cache": {"scope": "all"}}}, 4 + 4),
        ({"preset": "transformer_xl_rmt"}, 4),
        ({"preset": "transformer_xl_rmt", "recipe": "paper", "model": {"cache": {"scope": "tokens"}}}, 4),
        ({"preset": "transformer_xl_rmt", "recipe": "paper", "model": {"cache": {"size": 6}}}, 6),
        ({"preset": "transformer_xl", "recipe": "paper"}, 4),
        ({"preset": "rmt", "recipe": "paper"}, 0),
    ],
)
def test_a_cache_holds_a_segment_and_what_it_wrote_where_memory_states_are_cached(settings, cache):
    config = resolve({"task": {"name": "copy", "length": 4, "segments": 3}, **settings})
    assert config.model.cache.size == cache


def test_the_paper_recipe_is_what_the_published_runs_did():
    config = resolve({**COPY, "recipe": "paper", "size": "paper"})
    assert (config.model.norm, config.model.dropout, config.model.memory.init) == ("post", 0.1, "identical")
    assert (config.optimizer.name, config.optimizer.lr, config.optimizer.clip) == ("adam", 1e-4, 0.25)
    assert (config.rate.schedule, config.task.source, config.train.batch) == ("plateau", "fixed", 32)
    assert (config.model.layers, config.model.width, config.model.inner_width) == (4, 128, 256)


def test_a_named_setting_goes_before_the_recipe():
    config = resolve({**COPY, "recipe": "paper", "model": {"norm": "pre"}, "optimizer": {"lr": 0.5}})
    assert (config.model.norm, config.optimizer.lr, config.optimizer.name) == ("pre", 0.5, "adam")


def test_the_vocabulary_is_the_tasks_own_and_may_be_larger():
    assert resolve(COPY).model.vocabulary == 12
    assert resolve({**COPY, "model": {"vocabulary": 50}}).model.vocabulary == 50


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"preset": "rmt", "model": {"memory": {"sees_cache": True}}},
            "sees_cache=True has no effect: the rmt model",
        ),
        ({"preset": "baseline", "model": {"memory": {"write": False}}}, "memory.write=False has no effect"),
        ({"preset": "transformer_xl", "model": {"cache": {"scope": "all"}}}, "has no memory; leave it out"),
        (
            {"preset": "rmt", "recipe": "paper", "model": {"cache": {"scope": "tokens"}}},
            "scope=tokens has no effect",
        ),
        ({"preset": "baseline", "model": {"cache": {"size": 3}}}, "cache=3 has no effect"),
        ({"size": "paper", "task": {"name": "tests.train.runs:Echo"}}, "size=paper is not known for task"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_setting_without_effect_is_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        resolve(merge(COPY, settings))
    assert message in str(caught.value)


def test_later_settings_lie_over_earlier_ones_and_change_neither():
    first, second = {"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": {"z": 6}}
    assert merge(first, second) == {"a": {"x": 1, "y": 5}, "b": 3, "c": {"z": 6}}
    assert (first, second) == ({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": {"z": 6}})


@pytest.mark.parametrize(
    ("task", "size", "batch"),
    [
        ({"name": "copy", "length": 24, "segments": 9}, "paper", 128),
        ({"name": "copy", "length": 120, "segments": 9}, "paper", 64),  # of 360 tokens
        ({"name": "quadratic", "segments": 6}, "paper", 256),  # six layers
        ({"name": "retrieval", "segments": 3}, "paper", 1024),  # of one loss each
        ({"name": "retrieval", "segments": 3}, "small", 1024),
        ({"name": "copy", "segments": 3}, "small", 64),
    ],
)
def test_the_batch_follows_depth_and_the_length_of_a_sequence_and_its_losses(task, size, batch):
    for preset in PRESETS:
        config = resolve({"task": task, "size": size, "preset": preset})
        assert (config.recipe, config.train.batch) == ("modern-2", batch)
    assert resolve({"task": task, "size": size, "train": {"batch": 7}}).train.batch == 7


@pytest.mark.parametrize(
    ("length", "segments", "warmup"),
    [
        (120, 3, 100),
        (120, 9, 100),
        (120, 18, 200),
        (120, 45, 500),
        (360, 9, 300),
        (24, 18, 200),
        (1000, 25, 833),
    ],
)
def test_rates_rise_for_longer_where_more_borders_are_crossed_or_more_is_carried(length, segments, warmup):
    named = {"task": {"name": "copy", "length": length, "segments": segments}, "train": {"steps": 4000}}
    for preset in PRESETS:
        assert resolve({**named, "preset": preset}).rate.warmup == warmup
    assert resolve({**named, "recipe": "modern-1"}).rate.warmup == 100
    assert resolve({**named, "rate": {"warmup": 7}}).rate.warmup == 7
    assert resolve({**named, "train": {"steps": 600}}).rate.warmup == min(warmup, 150)
    assert resolve({**named, "train": {"steps": 60}}).rate.warmup == 100


@pytest.mark.parametrize(
    ("task", "samples"),
    [
        ({"name": "copy"}, 1000),
        ({"name": "retrieval"}, 5000),  # of one loss each
        ({"name": "retrieval", "options": {"pairs": 2}}, 1000),  # there are 4,927 different ones
    ],
    ids=["copy", "retrieval", "few-examples"],
)
def test_a_validation_set_has_as_many_losses_as_a_score_needs_if_there_are_as_many(task, samples):
    assert resolve({"task": task}).train.evaluate_samples == samples
    assert resolve({"task": task, "train": {"evaluate_samples": 7}}).train.evaluate_samples == 7


@pytest.mark.parametrize(
    ("task", "recipe", "samples", "available"),
    [("recall", "modern", 1001, 1000), ("recall", "paper", 1601, 1000), ("copy", "modern", 5001, 5000)],
)
def test_a_larger_validation_set_than_there_is_is_refused_where_it_was_named(
    task, recipe, samples, available
):
    named = {"task": {"name": task}, "recipe": recipe, "train": {"evaluate_samples": samples}}
    message = (
        f"train.evaluate_samples={samples} is more than the valid split of task '{task}' has: {available}; "
        "ask for fewer, or leave it out"
    )
    with pytest.raises(ConfigError) as caught:
        resolve(named)
    assert str(caught.value) == message
    named["train"] = {"evaluate_samples": available}
    assert resolve(named).train.evaluate_samples == available


@pytest.mark.parametrize(
    ("task", "recipe", "samples"),
    [
        ("recall", "paper", 1600),
        ("tests.train.runs:Echo", "modern", 1000),
        ("tests.train.runs:Echo", "paper", 1600),
    ],
)
def test_a_recipes_validation_set_is_all_there_is_where_a_task_has_fewer_also_when_read_back(
    task, recipe, samples
):
    config = resolve({"task": {"name": task}, "recipe": recipe})
    assert config.train.evaluate_samples == samples
    assert resolve(to_dict(config)) == config


def test_in_few_segments_versions_of_a_recipe_differ_in_where_models_start_and_in_the_batch():
    task = {"name": "copy", "length": 120, "segments": 9}
    named = {"task": task, "size": "paper"}
    first, second = (to_dict(resolve({**named, "recipe": recipe})) for recipe in ("modern-1", "modern"))
    new = {"recipe": "modern-2", "model": START["model"], "train": {"batch": 64}}
    assert merge(first, new) == second


def test_longer_inputs_of_retrieval_are_earned_by_knowing_every_letter():
    curriculum = resolve({"task": {"name": "retrieval"}}).curriculum
    unknown_letter = 2 / 26 / 2  # it is one of two, and the answer a guess between them
    assert (curriculum.over, curriculum.start) == ("length", 2)
    assert 1 - unknown_letter < curriculum.promote_at < 1
    assert curriculum.until < 1  # a baseline never earns them
    assert resolve({"task": {"name": "retrieval"}, "curriculum": {"over": "none"}}).curriculum.over == "none"


def test_a_setting_of_a_curriculum_lies_over_the_recipes():
    def curriculum(**settings):
        return resolve({"task": {"name": "retrieval"}, "curriculum": settings}).curriculum

    usual = resolve({"task": {"name": "retrieval"}}).curriculum
    assert curriculum(over="length") == usual
    assert curriculum(promote_at=0.9) == replace(usual, promote_at=0.9)
    assert curriculum(start=3) == replace(usual, start=3)
    assert curriculum(over="segments", start=1).growth == CurriculumConfig().growth


def test_a_task_whose_losses_are_drawn_has_a_batch():
    assert resolve({"task": {"name": "tests.experiments.test_recipe:Rare"}}).train.batch >= 64


def test_texts_start_small_and_other_tasks_as_the_identity(tmp_path):
    (tmp_path / "book.txt").write_text("It was the best of times. " * 400)
    text = {"name": "text", "data": str(tmp_path / "book.txt")}
    starts = [resolve({"task": task}).model for task in ({"name": "copy"}, {"name": "retrieval"}, text)]
    assert [start.init for start in starts] == ["identity", "identity", "small"]
    assert {start.output for start in starts} == {"gained"}
