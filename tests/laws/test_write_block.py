"""The write block comes after the tokens: neither what is in it nor that it is there changes their logits."""

from dataclasses import replace

from rmt import ModelConfig, Output, SegmentModel, State
from tests.laws.models import IN_LAYERS, STEPPABLE, assert_same, build, carried, over, random_segments, run

WITH_READ_BLOCK = ("rmt", "transformer_xl_rmt", "cache_of_all_positions", "memory_sees_cache")
WRITTEN = (*WITH_READ_BLOCK, *IN_LAYERS)


@over(WRITTEN)
def test_the_contents_of_the_write_block_change_the_next_memory_but_no_logits_of_its_segment(config):
    same, other = build(config), build(config)
    overwrite_write_block(other)
    ordinary, overwritten = second_segment(same, config), second_segment(other, config)
    assert difference(overwritten.state, ordinary.state) > 1e-3
    assert_same(overwritten.logits, ordinary.logits)


@over(WITH_READ_BLOCK, STEPPABLE)
def test_the_presence_of_the_write_block_changes_no_logits_of_its_segment(config):
    present = second_segment(build(config), config)
    absent = second_segment(build(without_write_block(config)), config)
    assert difference(present.state, absent.state) > 1e-3
    assert_same(present.logits, absent.logits)


@over(WITH_READ_BLOCK, ("relative-lm-rmt",))
def test_the_original_positions_let_the_presence_of_the_write_block_change_the_logits(config):
    present = second_segment(build(config), config)
    absent = second_segment(build(without_write_block(config)), config)
    assert (present.logits - absent.logits).abs().max() > 1e-6


def difference(state: State, other: State) -> float:
    """The largest difference of what memory hands on."""
    pairs = zip(carried(state), carried(other), strict=True)
    return max((mine - theirs).abs().max().item() for mine, theirs in pairs)


def second_segment(model: SegmentModel, config: ModelConfig) -> Output:
    """What `model` makes of a segment, from the state that a model of `config` left before it."""
    first, second = random_segments(count=2)
    return model(second, run(build(config), [first])[0].state)


def without_write_block(config: ModelConfig) -> ModelConfig:
    return replace(config, memory=replace(config.memory, write=False))


def overwrite_write_block(model: SegmentModel) -> None:
    """Let the model find something else than its memory behind the tokens."""
    write_block = model.memory.write_block
    model.memory.write_block = lambda carried: -1 - write_block(carried)
