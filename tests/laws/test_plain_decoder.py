"""With sizes zero a segment model is a plain decoder: here is one, written apart."""

# L tokens · D width · H heads · E head width

import math

import torch
from torch import Tensor

from rmt import ModelConfig
from tests.laws.models import (
    assert_same,
    assert_same_gradients,
    build,
    functional,
    gradients,
    over,
    random_tokens,
)


@over(("baseline",))
def test_with_sizes_zero_the_logits_are_those_of_a_plain_decoder(config):
    model, tokens = build(config), random_tokens(2, 6)
    actual = model(tokens, model.initial_state(2)).logits
    expected = torch.stack([decode(dict(model.named_parameters()), row, config) for row in tokens])
    assert_same(actual, expected, tolerance=1e-12)


@over(("baseline",))
def test_with_sizes_zero_the_gradients_are_those_of_a_plain_decoder(config):
    model, tokens = build(config), random_tokens(2, 6)
    actual = model(tokens, model.initial_state(2)).logits
    expected = torch.stack([decode(dict(model.named_parameters()), row, config) for row in tokens])
    assert_same_gradients(gradients(functional(actual), model), gradients(functional(expected), model))


def decode(p: dict[str, Tensor], tokens: Tensor, config: ModelConfig) -> Tensor:
    """Logits of one row of tokens (L,), from named parameters."""
    x = p["embedding.weight"][tokens] * math.sqrt(config.width)
    for n in range(config.layers):
        for block, name in ((attention, "attention"), (feed_forward, "feed_forward")):
            here = {key.removeprefix(f"backbone.layers.{n}.{name}"): value for key, value in p.items()}
            if config.norm == "pre":
                x = x + block(here, normalise(x, here, "_norm"), config)
            else:
                x = normalise(x + block(here, x, config), here, "_norm")
    if config.norm == "pre":
        x = normalise(x, p, "backbone.final_norm")
    return x @ p["embedding.weight"].T + p["embedding.bias"]


def attention(p: dict[str, Tensor], x: Tensor, config: ModelConfig) -> Tensor:
    """Head by head: softmax over the past and present of scores / sqrt(E)."""
    future = torch.arange(len(x))[:, None] < torch.arange(len(x))
    score = rotary if config.positions == "rotary" else relative
    heads = []
    for h in range(config.heads):
        q, k, v = (x @ part.chunk(config.heads)[h].T for part in p[".qkv.weight"].chunk(3))
        weights = (score(p, q, k, h) / math.sqrt(config.head_width)).exp().masked_fill(future, 0)
        heads.append(weights / weights.sum(dim=-1, keepdim=True) @ v)
    return torch.cat(heads, dim=-1) @ p[".out.weight"].T


def rotary(p: dict[str, Tensor], q: Tensor, k: Tensor, h: int) -> Tensor:
    """Halves of a vector are real and imaginary parts, turned by position times frequency."""
    angle = torch.outer(torch.arange(len(q)), frequencies(q.shape[1]))
    turned = [torch.complex(*x.chunk(2, dim=-1)) * torch.exp(1j * angle) for x in (q, k)]
    return (turned[0] @ turned[1].conj().T).real


def relative(p: dict[str, Tensor], q: Tensor, k: Tensor, h: int) -> Tensor:
    """(q + u)·k + (q + v)·W r(i - j), with a vector r for every pair."""
    u, v = p["backbone.positions.content_bias"][h], p["backbone.positions.position_bias"][h]
    project = p[".positions.project.weight"].unflatten(0, (-1, q.shape[1]))[h]
    distance = torch.arange(len(q))[:, None, None] - torch.arange(len(q))[:, None]
    angle = distance * frequencies(project.shape[1])
    r = torch.cat([angle.sin(), angle.cos()], dim=-1) @ project.T  # (L, L, E)
    return (q + u) @ k.T + ((q + v)[:, None] * r).sum(dim=-1)


def feed_forward(p: dict[str, Tensor], x: Tensor, config: ModelConfig) -> Tensor:
    return (x @ p[".0.weight"].T + p[".0.bias"]).relu() @ p[".3.weight"].T + p[".3.bias"]


def normalise(x: Tensor, p: dict[str, Tensor], name: str) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=True)
    deviation = (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
    return centred / deviation * p[f"{name}.weight"] + p[f"{name}.bias"]


def frequencies(width: int) -> Tensor:
    return 10000.0 ** (-torch.arange(0, width, 2) / width)
