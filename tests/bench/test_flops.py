"""The formula for operations against a counter that watches the products."""

from math import ceil

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from rmt.bench.flops import Cost, forward, passes, shares, training, work
from rmt.bench.text import made_text
from rmt.core.bptt import windows
from rmt.core.config import CacheConfig, MemoryConfig, ModelConfig
from rmt.core.model import SegmentModel
from rmt.errors import ConfigError
from rmt.experiments.recipe import merge, resolve
from rmt.train.config import build_task
from rmt.train.trainer import Trainer

BATCH, TOKENS = 3, 5
SIZES = {"vocabulary": 12, "layers": 2, "heads": 2, "head_width": 4, "width": 6, "inner_width": 10}
MODELS = {
    "plain": {},
    "memory": {"memory": MemoryConfig(size=2)},
    "read-only": {"memory": MemoryConfig(size=2, write=False, recurrent=False)},
    "cache": {"cache": CacheConfig(size=4)},
    "both": {"memory": MemoryConfig(size=2), "cache": CacheConfig(size=4)},
}


def config_of(name: str, **more: object) -> ModelConfig:
    return ModelConfig(**SIZES, **MODELS[name], **more)


def counted(config: ModelConfig, targets: torch.Tensor, backward: bool) -> int:
    """Operations of one segment's products, attention written out as products, too."""
    model = SegmentModel(config)
    tokens = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        output = model(tokens, model.initial_state(BATCH), targets=targets)
        if backward:
            output.losses.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "and-backward"])
@pytest.mark.parametrize("name", MODELS)
def test_with_rotary_positions_every_product_is_in_the_formula(name, backward):
    config = config_of(name, positions="rotary")
    found = counted(config, torch.zeros(BATCH, TOKENS, dtype=torch.long), backward)
    assert forward(config, TOKENS, BATCH).whole * (3 if backward else 1) == found


def test_of_another_kind_of_memory_than_tokens_nothing_is_counted():
    config = ModelConfig(**SIZES, memory=MemoryConfig(size=2, kind="associative"))
    assert forward(config, TOKENS, BATCH) == Cost(0.0, 0.0)


@pytest.mark.parametrize("name", MODELS)
def test_with_relative_positions_only_distances_that_no_pair_has_are_left_out(name):
    config = config_of(name, positions="relative")
    queries = TOKENS + config.memory.size * (1 + config.memory.write)
    keys = config.cache.size + queries
    distances = 8 * ceil((keys + queries + 1) / 8)
    heads = config.heads * config.head_width
    unused = 3 * 2 * BATCH * queries * (distances - keys) * heads
    projected = 2 * 2 * distances * config.width * heads  # once for all rows; sinusoids have no gradient
    found = counted(config, torch.zeros(BATCH, TOKENS, dtype=torch.long), backward=True)
    assert 3 * forward(config, TOKENS, BATCH).whole + config.layers * (unused + projected) == found


def test_an_adaptive_softmax_scores_the_clusters_that_have_targets():
    config = config_of("memory", positions="rotary", cutoffs=(4, 7))
    targets = torch.tensor([0, 1, 2, 3, 4, 4, 5, 6, 6, 11, 3, 2, 1, 0, 7]).view(BATCH, TOKENS)
    share = shares(targets.numpy(), config.cutoffs)
    assert share == pytest.approx([5 / 15, 2 / 15])
    found = counted(config, targets, backward=True)
    assert 3 * forward(config, TOKENS, BATCH, share).whole == pytest.approx(found, rel=1e-12)


def test_targets_per_cluster_are_those_between_the_cutoffs():
    assert shares(np.array([0, 1, 5, 5, 9, 9, 9, 2]), (5, 9)) == pytest.approx([2 / 8, 3 / 8])
    assert shares(np.array([0, 1]), ()) == []


COSTS = [Cost(1.0, 100.0), Cost(10.0, 1000.0), Cost(1000.0, 10000.0)]


@pytest.mark.parametrize(
    ("counts", "depth", "schedule", "carries", "expected"),
    [
        ([1, 1, 1], "full", "sequence", True, 3 * (1011 + 11100)),
        ([0, 0, 1], "full", "sequence", True, 3 * (1011 + 10000)),
        ([0, 0, 1], "full", "sequence", False, 11 + 3 * (1000 + 10000)),
        ([1, 0, 0], "full", "sequence", True, 3 * (1 + 100) + 1010),
        ([0, 0, 1], 1, "sequence", True, 11 + 3 * (1010 + 10000)),
        ([1, 1, 1], 1, "sequence", True, 3 * (1 + 100 + 11 + 1000 + 1010 + 10000)),
    ],
    ids=["all", "answer", "answer-without-memory", "only-first", "skimmed", "replayed"],
)
def test_a_segment_has_a_backward_pass_if_a_loss_reaches_it(counts, depth, schedule, carries, expected):
    assert training(COSTS, windows(counts, depth, schedule), carries) == expected


def test_a_segment_that_is_replayed_is_computed_again():
    computed = [step.segment for step in passes(windows([0, 1, 1], 1, "sliding"), carries=True)]
    assert computed == [0, 0, 1, 1, 2]


TINY = {"layers": 2, "heads": 2, "head_width": 4, "width": 8, "inner_width": 12, "positions": "rotary"}
ADAM = {"name": "adam"}


BATCHES = {
    "chunked": ({"schedule": "chunked", "depth": 2}, {}, 3),
    "sliding": ({"schedule": "sliding", "depth": 2}, {}, 3),
    "sliding-latest-post-norm": (
        {"schedule": "sliding", "depth": 2, "replay_from": "latest"},
        {"model": {"norm": "post", "dropout": 0.1}},
        3,
    ),
    "transformer-xl": ({"schedule": "chunked", "depth": 2}, {"preset": "transformer_xl"}, 3),
    "transformer-xl-rmt": ({"schedule": "chunked", "depth": 2}, {"preset": "transformer_xl_rmt"}, 3),
    "transformer-xl-rmt-sliding": ({"schedule": "sliding", "depth": 1}, {"preset": "transformer_xl_rmt"}, 2),
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_work_of_a_batch_of_text_is_what_a_trainer_does(tmp_path, name):
    bptt, settings, segments = BATCHES[name]
    text = {"name": "text", "data": made_text(20, tmp_path, 2000), "segment_length": 6}
    memory = {} if settings.get("preset") == "transformer_xl" else {"memory": {"size": 2}}
    config = resolve(
        merge(
            {
                "task": text,
                "model": {**TINY, **memory},
                "bptt": bptt,
                "optimizer": ADAM,
                "train": {"batch": 4},
                "device": "cpu",
            },
            settings,
        )
    )
    task = build_task(config.task)
    trainer = Trainer(config, task)
    for _ in range(3):
        list(trainer.updates())
    before = trainer.tokens
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        updates = len(list(trainer.updates()))
    asked = work(config, task)
    assert counter.get_total_flops() == asked.flops
    assert (asked.updates, asked.tokens) == (updates, trainer.tokens - before)
    assert asked.segments == segments


@pytest.mark.parametrize(
    ("bptt", "updates"),
    [({}, 1), ({"depth": 0, "schedule": "chunked"}, 2), ({"depth": 1, "schedule": "sliding"}, 2)],
    ids=["sequence", "chunked", "sliding"],
)
def test_the_updates_of_a_batch_of_sequences_are_counted(bptt, updates):
    config = resolve({"task": {"name": "copy", "length": 4}, "bptt": bptt, "device": "cpu"})
    task = build_task(config.task)
    asked = work(config, task)
    assert len(list(Trainer(config, task).updates())) == asked.updates == updates
    assert asked.tokens == config.train.batch * task.total_length


def test_a_curriculum_is_refused():
    config = resolve({"task": {"name": "copy"}, "curriculum": {"over": "segments"}, "device": "cpu"})
    with pytest.raises(ConfigError, match=r"curriculum\.over=segments changes the step"):
        work(config, build_task(config.task))
