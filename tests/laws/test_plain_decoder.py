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
    length, width = len(tokens), config.width
    future = torch.arange(length)[:, None] < torch.arange(length)

    def norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * p[f"{name}.weight"]
            + p[f"{name}.bias"]
        )

    def attention(x: Tensor, name: str) -> Tensor:
        heads = []
        for h in range(config.heads):
            q, k, v = (w.chunk(config.heads)[h] for w in p[f"{name}.qkv.weight"].chunk(3))
            score = (
                rotary(x @ q.T, x @ k.T)
                if config.positions == "rotary"
                else relative(x @ q.T, x @ k.T, name, h)
            )
            weight = (score / math.sqrt(config.head_width)).masked_fill(future, -math.inf).exp()
            heads.append(weight / weight.sum(-1, keepdim=True) @ (x @ v.T))
        return torch.cat(heads, dim=-1) @ p[f"{name}.out.weight"].T

    def rotary(q: Tensor, k: Tensor) -> Tensor:
        angle = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, q.shape[1], 2) / q.shape[1]))
        q, k = (
            torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle) for x in (q, k)
        )
        return (q @ k.conj().T).real

    def relative(q: Tensor, k: Tensor, name: str, h: int) -> Tensor:
        u, v = (p[f"backbone.positions.{which}_bias"][h] for which in ("content", "position"))
        distance = (torch.arange(length)[:, None] - torch.arange(length))[..., None]
        angle = distance * 10000.0 ** (-torch.arange(0, width, 2) / width)
        r = (
            torch.cat([angle.sin(), angle.cos()], dim=-1)
            @ p[f"{name}.positions.project.weight"].chunk(config.heads)[h].T
        )
        return (q + u) @ k.T + ((q + v)[:, None] * r).sum(-1)

    def feed_forward(x: Tensor, name: str) -> Tensor:
        inner = (x @ p[f"{name}.0.weight"].T + p[f"{name}.0.bias"]).relu()
        return inner @ p[f"{name}.3.weight"].T + p[f"{name}.3.bias"]

    x = p["embedding.weight"][tokens] * math.sqrt(width)
    for n in range(config.layers):
        for block, name in ((attention, "attention"), (feed_forward, "feed_forward")):
            name = f"backbone.layers.{n}.{name}"
            pre = config.norm == "pre"
            x = x + block(norm(x, f"{name}_norm"), name) if pre else norm(x + block(x, name), f"{name}_norm")
    x = norm(x, "backbone.final_norm") if config.norm == "pre" else x
    return x @ p["embedding.weight"].T + p["embedding.bias"]
