"""Laws that the reference of LM-RMT itself must obey."""

import pytest
import torch
from torch import Tensor

from tests.golden.lm_rmt_reference import (
    attention_mask,
    empty_cache,
    forward,
    initial_memory,
    random_state_dict,
    relative_shift,
    sinusoids,
)
from tests.golden.lm_rmt_words import with_adaptive_softmax

BATCH, VOCABULARY, WIDTH, LAYERS, MEMORIES = 2, 11, 8, 3, 2


def checkpoint(memory: int = MEMORIES) -> dict[str, Tensor]:
    return random_state_dict(
        0, VOCABULARY, WIDTH, heads=2, head_width=3, inner=12, layers=LAYERS, memory=memory
    )


def random_ids(seed: int, tokens: int = 5) -> Tensor:
    return torch.randint(VOCABULARY, (tokens, BATCH), generator=torch.Generator().manual_seed(seed))


def table(*rows: str) -> Tensor:
    """A mask drawn as text: x blocked, . visible, spaces between the blocks."""
    return torch.tensor([[mark == "x" for mark in row.replace(" ", "")] for row in rows])


@pytest.mark.parametrize("cached", [0, 3], ids=["without a cache", "with a cache"])
def test_relative_shift_gives_the_true_distance_below_the_diagonal_and_the_wrapped_one_above(cached):
    queries, keys = 5, 5 + cached
    scores = torch.randn(queries, keys, 2, 3, dtype=torch.float64)
    shifted = relative_shift(scores)

    def term(row: int, distance: int) -> Tensor:
        return scores[row, keys - 1 - distance]

    for i in range(queries):
        for j in range(keys):
            offset = j - (i + cached)
            if offset <= 0:
                expected = term(i, -offset)
            elif offset == 1:
                expected = torch.zeros(2, 3, dtype=torch.float64)
            else:
                expected = term(i + 1, keys - (offset - 1))
            assert torch.equal(shifted[i, j], expected), (i, j)


def test_sinusoids_run_from_the_largest_distance_down_to_zero_with_sines_first():
    positions = sinusoids(4, torch.zeros(1, 6, dtype=torch.float64))
    distances = torch.tensor([3, 2, 1, 0], dtype=torch.float64)
    for t in range(3):
        angles = distances * 10000 ** (-2 * t / 6)
        torch.testing.assert_close(positions[:, t], angles.sin())
        torch.testing.assert_close(positions[:, 3 + t], angles.cos())


MASKS = {
    "read and write, memory blind to the cache": (
        {"memories": 2, "cached": 2, "write": True, "memory_sees_cache": False},
        table(
            "xx .. xxx xx",
            "xx .. xxx xx",
            ".. .. .xx xx",
            ".. .. ..x xx",
            ".. .. ... xx",
            "xx .. ... ..",
            "xx .. ... ..",
        ),
    ),
    "read and write, memory sees the cache": (
        {"memories": 2, "cached": 2, "write": True, "memory_sees_cache": True},
        table(
            ".. .. xxx xx",
            ".. .. xxx xx",
            ".. .. .xx xx",
            ".. .. ..x xx",
            ".. .. ... xx",
            ".. .. ... ..",
            ".. .. ... ..",
        ),
    ),
    "read only, memory blind to the cache": (
        {"memories": 2, "cached": 2, "write": False, "memory_sees_cache": False},
        table("xx .. xxx", "xx .. xxx", ".. .. .xx", ".. .. ..x", ".. .. ..."),
    ),
    "read and write, empty cache": (
        {"memories": 1, "cached": 0, "write": True, "memory_sees_cache": False},
        table(". xxx x", ". .xx x", ". ..x x", ". ... x", ". ... ."),
    ),
    "no memory": (
        {"memories": 0, "cached": 2, "write": True, "memory_sees_cache": False},
        table(".. .xx", ".. ..x", ".. ..."),
    ),
}


@pytest.mark.parametrize(("layout", "expected"), MASKS.values(), ids=MASKS)
def test_mask_is_the_published_table(layout, expected):
    assert torch.equal(attention_mask(3, **layout), expected)


def test_memory_of_a_read_only_layout_does_not_depend_on_the_input():
    weights = checkpoint()
    memory, cache = initial_memory(weights, BATCH), empty_cache(weights, BATCH)
    settings = {"mem_len": 0, "memory_sees_cache": False}
    one, other = (
        forward(weights, random_ids(seed), memory, cache, write=False, **settings) for seed in (1, 2)
    )
    assert torch.equal(one.memory, other.memory)
    assert not torch.allclose(one.memory, memory)

    one, other = (
        forward(weights, random_ids(seed), memory, cache, write=True, **settings) for seed in (1, 2)
    )
    assert (one.memory - other.memory).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize("mem_len", [0, 1, 4, 13, 100])
@pytest.mark.parametrize("write", [True, False], ids=["read and write", "read only"])
def test_cache_is_the_last_rows_of_old_cache_read_sequence_and_write(write, mem_len):
    weights = checkpoint()
    memory, cache = initial_memory(weights, BATCH), empty_cache(weights, BATCH)
    for segment in range(3):
        ids = random_ids(segment)
        settings = {"write": write, "memory_sees_cache": False}
        output = forward(weights, ids, memory, cache, mem_len=mem_len, **settings)
        everything = forward(weights, ids, memory, cache, mem_len=10**6, **settings).cache

        embedded = weights["word_emb.emb_layers.0.weight"][ids] * WIDTH**0.5
        blocks = [memory, embedded, memory] if write else [memory, embedded]
        torch.testing.assert_close(everything[0], torch.cat([cache[0], *blocks]), rtol=0, atol=1e-12)
        read = slice(len(cache[-1]), len(cache[-1]) + MEMORIES)
        carried = everything[-1][-MEMORIES:] if write else everything[-1][read]
        assert torch.equal(carried, output.memory)

        assert len(output.cache) == LAYERS + 1
        for kept, all_rows, old in zip(output.cache, everything, cache, strict=True):
            rows = min(mem_len, len(all_rows))
            assert kept.shape == (rows, BATCH, WIDTH)
            assert torch.equal(kept, all_rows[len(all_rows) - rows :])
            assert torch.equal(all_rows[: len(old)], old)
        memory, cache = output.memory, output.cache


def test_memory_passes_gradients_to_the_previous_segment_and_the_cache_does_not():
    weights = {name: tensor.requires_grad_() for name, tensor in checkpoint().items()}
    settings = {"mem_len": 6, "write": True, "memory_sees_cache": True}
    first = forward(
        weights, random_ids(0), initial_memory(weights, BATCH), empty_cache(weights, BATCH), **settings
    )
    second = forward(weights, random_ids(1), first.memory, first.cache, **settings)
    (gradient,) = torch.autograd.grad(second.logits.square().sum(), weights["mem_tokens"], retain_graph=True)
    assert (gradient != 0).all()
    assert not any(rows.requires_grad for rows in first.cache)

    cut = forward(weights, random_ids(1), first.memory.detach(), first.cache, **settings)
    (gradient,) = torch.autograd.grad(cut.logits.square().sum(), weights["mem_tokens"], allow_unused=True)
    assert gradient is None


def test_logits_never_depend_on_later_tokens():
    weights = checkpoint()
    memory, cache = initial_memory(weights, BATCH), empty_cache(weights, BATCH)
    ids = random_ids(0)
    changed = ids.clone()
    changed[3] = (changed[3] + 1) % VOCABULARY
    settings = {"mem_len": 0, "write": True, "memory_sees_cache": False}
    before, after = (forward(weights, x, memory, cache, **settings).logits for x in (ids, changed))
    assert torch.equal(before[:3], after[:3])
    assert not torch.allclose(before[3], after[3])
    assert not torch.allclose(before[4], after[4])


@pytest.mark.parametrize("div_val", [1, 2], ids=["one table", "a table for each cluster"])
def test_an_adaptive_softmax_gives_log_probabilities(div_val):
    weights = with_adaptive_softmax(checkpoint(), (3, 7), div_val)
    memory, cache = initial_memory(weights, BATCH), empty_cache(weights, BATCH)
    settings = {"mem_len": 0, "write": True, "memory_sees_cache": False, "cutoffs": (3, 7)}
    logits = forward(weights, random_ids(0), memory, cache, **settings).logits
    assert logits.shape == (5, BATCH, VOCABULARY)
    ones = torch.ones(5, BATCH, dtype=torch.float64)
    torch.testing.assert_close(logits.exp().sum(-1), ones, rtol=0, atol=1e-12)


def test_without_memory_a_long_enough_cache_makes_segments_equal_to_one_long_segment():
    weights = checkpoint(memory=0)
    memory, cache = initial_memory(weights, BATCH), empty_cache(weights, BATCH)
    ids = random_ids(0, tokens=12)
    settings = {"mem_len": 12, "write": True, "memory_sees_cache": False}
    whole = forward(weights, ids, memory, cache, **settings).logits
    parts = []
    for segment in ids.split(4):
        logits, memory, cache = forward(weights, segment, memory, cache, **settings)
        parts.append(logits)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


def test_random_state_dict_has_the_published_layout():
    shapes = {name: tuple(tensor.shape) for name, tensor in checkpoint().items()}
    layer = {
        "dec_attn.qkv_net.weight": (18, 8),
        "dec_attn.o_net.weight": (8, 6),
        "dec_attn.r_net.weight": (6, 8),
        "dec_attn.layer_norm.weight": (8,),
        "dec_attn.layer_norm.bias": (8,),
        "pos_ff.CoreNet.0.weight": (12, 8),
        "pos_ff.CoreNet.0.bias": (12,),
        "pos_ff.CoreNet.3.weight": (8, 12),
        "pos_ff.CoreNet.3.bias": (8,),
        "pos_ff.layer_norm.weight": (8,),
        "pos_ff.layer_norm.bias": (8,),
    }
    outside = {
        "word_emb.emb_layers.0.weight": (11, 8),
        "crit.out_layers.0.weight": (11, 8),
        "crit.out_layers.0.bias": (11,),
        "pos_emb.inv_freq": (4,),
        "r_w_bias": (2, 3),
        "r_r_bias": (2, 3),
    }
    inside = {f"layers.{i}.{name}": shape for i in range(LAYERS) for name, shape in layer.items()}
    assert shapes == outside | inside | {"mem_tokens": (2, 1, 8)}
    assert checkpoint(memory=0).keys() == (outside | inside).keys()
