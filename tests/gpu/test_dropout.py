"""Masks of dropout follow from keys and places: as random as they should be, and the same every time."""

# S seeds · B batch · R rows · D width, padded

from collections.abc import Iterator
from itertools import combinations
from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rmt import SegmentModel
from rmt.gpu import naive
from rmt.gpu.dropout import (
    ATTENTION,
    DISTANCES,
    FEED_FORWARD,
    INNER,
    INPUT,
    OUTPUT,
    SITES,
    Drop,
    Dropout,
    update_keys,
)
from rmt.gpu.engine import Engine
from rmt.gpu.tiles import padded
from tests.gpu.updates import DEVICE, assert_same_outcome, differentiated, model_of, outputs_of, steps

COUNT = 2**16  # numbers of a mask, in rows of 256
SIGMAS = 5.0  # how far a sum may be from what is expected of it


def mask(drop: Drop | None, seeds: int = 1) -> Tensor:
    """What is kept, (S, COUNT), as numbers."""
    assert drop is not None
    return naive.kept(drop, torch.Size((seeds, COUNT // 256, 256))).flatten(1).double()


def masks() -> dict[str, Tensor]:
    """Masks that have nothing in common but their probability."""
    keys = {
        "": update_keys(0, 0),
        "next-update": update_keys(0, 1),
        "later-update": update_keys(0, 2**20),
        "next-seed": update_keys(1, 0),
        "next-process": update_keys(0, 0, process=1),
        "next-process-and-update": update_keys(0, 1, process=1),
    }
    places = {
        "": (INPUT, 0, 0),
        "next-place": (OUTPUT, 0, 0),
        "next-layer": (ATTENTION, 1, 0),
        "next-segment": (INPUT, 0, 1),
        "last-layer": (FEED_FORWARD, 300, 0),
        "later-segment": (INPUT, 0, 1000),
    }
    chosen = [(update, "") for update in keys] + [("", place) for place in places if place]
    result = {}
    for update, place in chosen:
        site, layer, segment = places[place]
        drop = Dropout(keys[update][None], 0.3, segment).at(site, layer)
        result[f"{update}{place}" or "first"] = mask(drop)[0]
    return result


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.99])
def test_as_many_numbers_are_dropped_as_the_probability_says(probability):
    for step in range(8):
        kept = mask(Drop(update_keys(0, step)[None], probability, 5))
        deviation = sqrt(probability * (1 - probability) / COUNT)
        assert abs(1 - kept.mean() - probability) < SIGMAS * deviation
        blocks = kept.view(-1, 256).sum(1)  # as scattered as throws of a coin
        scatter = blocks.var() / (256 * probability * (1 - probability))
        assert abs(scatter - 1) < SIGMAS * sqrt(2 / len(blocks))


def correlation(first: Tensor, second: Tensor) -> float:
    """Of two masks, in units of its deviation if they have nothing to do with each other."""
    return float(torch.corrcoef(torch.stack([first, second]))[0, 1]) * sqrt(len(first))


def test_places_segments_updates_seeds_and_processes_have_masks_of_their_own():
    for (first, kept), (second, other) in combinations(masks().items(), 2):
        assert abs(correlation(kept, other)) < SIGMAS, (first, second)


@pytest.mark.parametrize("distance", [1, 2, 16, 255, 256, 257, 4096])
def test_numbers_of_a_mask_do_not_depend_on_their_neighbours(distance):
    for kept in masks().values():
        assert abs(correlation(kept[:-distance], kept[distance:])) < SIGMAS


def test_the_same_keys_and_place_make_the_same_mask_and_a_larger_one_begins_with_it():
    drop = Drop(update_keys(3, 7)[None], 0.3, 9)
    assert torch.equal(mask(drop), mask(drop._replace(keys=update_keys(3, 7)[None])))
    fewer = naive.kept(drop, torch.Size((1, 5, 256)))
    assert torch.equal(fewer, naive.kept(drop, torch.Size((1, 9, 256)))[:, :5])


def test_the_mask_of_a_seed_is_the_same_beside_others():
    keys = torch.stack([update_keys(seed, 4) for seed in range(3)])
    together = mask(Drop(keys, 0.3, 9), seeds=3)
    for seed in range(3):
        assert torch.equal(together[seed], mask(Drop(keys[seed : seed + 1], 0.3, 9))[0])


def test_every_place_of_an_update_has_a_number_of_its_own():
    places = [
        Dropout(update_keys(0, 0)[None], 0.3, segment).at(site, layer)
        for segment in range(3)
        for site, layers in (
            (DISTANCES, 1),
            (INPUT, 1),
            (OUTPUT, 1),
            (ATTENTION, 50),
            (INNER, 50),
            (FEED_FORWARD, 50),
        )
        for layer in range(layers)
    ]
    numbers = [drop.site for drop in places if drop is not None]
    assert len(set(numbers)) == len(places)
    assert max(numbers) < 2 * 3 * SITES + 3


def test_without_a_probability_there_is_no_mask():
    assert Dropout(update_keys(0, 0)[None], 0.0, 0).at(INPUT) is None


class Counted(nn.Module):
    """Dropout of a plain model by the masks of the engine, at one place, or at some in turn."""

    def __init__(self, keys: Tensor, probability: float, width: int, sites: tuple[int, ...], layer: int = 0):
        super().__init__()
        self.keys, self.probability, self.width = keys, probability, width
        self.sites, self.layer = sites, layer
        self.segment, self.calls = -1, 0

    def forward(self, x: Tensor) -> Tensor:
        site = self.sites[self.calls % len(self.sites)]
        self.calls += 1
        drop = Dropout(self.keys[None], self.probability, self.segment).at(site, self.layer)
        assert drop is not None
        rows = x[..., 0].numel()
        kept = naive.kept(drop, torch.Size((1, rows, self.width)))[0, :, : x.shape[-1]].view(x.shape)
        return torch.where(kept, x * drop.scale, 0.0)


def counted(model: SegmentModel, keys: Tensor) -> SegmentModel:
    """A plain model with the masks that the engine makes of the keys."""
    config, backbone = model.config, model.backbone
    width, inner = padded(config.width), padded(config.inner_width)

    def place(width: int, *sites: int, layer: int = 0) -> Counted:
        return Counted(keys, config.dropout, width, sites, layer)

    backbone.dropout = place(width, INPUT, OUTPUT)
    if config.positions == "relative":
        backbone.positions.dropout = place(width, DISTANCES)
    for number, layer in enumerate(backbone.layers):
        layer.dropout = place(width, ATTENTION, layer=number)
        layer.feed_forward[2] = place(inner, INNER, layer=number)
        layer.feed_forward[4] = place(width, FEED_FORWARD, layer=number)

    def next_segment(*_: Any) -> None:
        for module in backbone.modules():
            if isinstance(module, Counted):
                module.segment += 1

    backbone.register_forward_pre_hook(next_segment)
    return model


CASES = [
    pytest.param(kind, size, positions, norm, id=f"{kind}-{size}-{positions}-{norm}")
    for kind, size in (
        ("rmt", "odd"),
        ("rmt", "even"),
        ("baseline", "odd"),
        ("transformer_xl_rmt", "odd"),
        ("cache_of_all_positions", "even"),
        ("memory_transformer", "odd"),
    )
    for positions in ("relative", "rotary")
    for norm in ("pre", "post")
]


def dropping(kind: str, size: str = "odd", **settings: Any) -> SegmentModel:
    return model_of(kind, size, dropout=0.3, **settings)


@pytest.mark.covering
@pytest.mark.parametrize(("kind", "size", "positions", "norm"), CASES)
def test_outputs_and_gradients_are_those_of_autograd_with_the_same_masks(kind, size, positions, norm):
    keys = update_keys(1, 2).to(DEVICE)
    model = dropping(kind, size, positions=positions, norm=norm)
    plain = counted(dropping(kind, size, positions=positions, norm=norm), keys)
    engine = Engine(model, torch.float64, operations=naive)
    expected = differentiated(plain)
    for _ in range(2):
        assert_same_outcome(differentiated(model, engine, keys=keys), expected)


@pytest.mark.parametrize("positions", ["relative", "rotary"])
@pytest.mark.parametrize("kind", ["rmt", "transformer_xl_rmt"])
def test_a_recomputed_segment_has_the_same_masks(kind, positions):
    model, keys = dropping(kind, positions=positions), update_keys(1, 2).to(DEVICE)
    kept = differentiated(model, Engine(model, torch.float64, operations=naive, max_waiting=0), keys=keys)
    engine = Engine(model, torch.float64, operations=naive, recompute=True)
    for options in ({}, {"wrap": engine.recomputed}):
        recomputed = differentiated(model, engine, keys=keys, **options)
        for name, gradient in kept.gradients.items():
            assert torch.equal(recomputed.gradients[name], gradient), name


def test_other_keys_make_other_masks():
    model = dropping("rmt")
    engine = Engine(model, torch.float64, operations=naive)

    def losses() -> Iterator[float]:
        for step in (0, 1, 0):
            engine.begin(update_keys(0, step))
            yield outputs_of(engine.model, steps())[1].losses.sum().item()

    first, second, again = losses()
    assert first == again != second
