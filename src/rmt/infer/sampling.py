"""The next token from logits: the likeliest, or one drawn from a distribution that was sharpened and cut."""

# B batch · V vocabulary

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rmt.config import between, check_fields, needless, option, positive
from rmt.core.inputs import whole_number
from rmt.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = option(1.0, "logits are divided by this; 0 = always the likeliest token")
    top_k: int | None = option(None, "only so many of the likeliest tokens")
    top_p: float = option(1.0, "only the likeliest tokens that have this probability together")

    def __post_init__(self) -> None:
        check_fields(self, "sampling")
        positive("temperature", self.temperature, zero=True)
        between("top_p", self.top_p, 0, 1, closed=True)
        if self.top_k is not None:
            positive("top_k", self.top_k)
        for name in ("top_k", "top_p"):
            needless(self, name, self.temperature > 0, "a temperature above 0")


def sample(logits: Tensor, sampling: Sampling, generators: Sequence[torch.Generator]) -> Tensor:
    """One token (B,) for each row of logits (B, V), on the CPU; each row has its own generator (B)."""
    logits = logits.detach().cpu().double()
    if sampling.temperature == 0:
        return logits.argmax(-1)
    likeliest = logits.amax(-1, keepdim=True)  # less it, no temperature is too low to divide by
    probabilities = kept((logits - likeliest) / sampling.temperature, sampling).softmax(-1)
    drawn = [
        torch.multinomial(row, 1, generator=generator)
        for row, generator in zip(probabilities, generators, strict=True)
    ]
    return torch.cat(drawn)


def kept(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits with -inf for the tokens that `top_k` and then `top_p` leave out, (B, V) -> (B, V)."""
    if sampling.top_k is not None and sampling.top_k < logits.shape[-1]:
        lowest = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < lowest, -math.inf)
    if sampling.top_p == 1:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True)
    before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)  # of all likelier tokens together
    out = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, before >= sampling.top_p)
    return logits.masked_fill(out, -math.inf)


def generators_of(seed: int | None, batch: int) -> list[torch.Generator]:
    """A generator for each row: row b of a batch draws what a batch of one draws with seed + b."""
    if seed is None:
        seed = int(torch.randint(2**31, ()))
    if (seed := whole_number("seed", seed, zero=True)) >= 2**63 - batch:
        raise ConfigError(f"seed={seed} must be at least 0 and below {2**63 - batch}")
    return [torch.Generator().manual_seed(seed + row) for row in range(batch)]
