"""Causality: a token changes nothing before it, in its own segment and in earlier ones."""

import torch

from tests.laws.models import build, influence, over


@over()
def test_a_token_never_changes_logits_before_it(config):
    changed = influence(build(config))
    before = torch.ones_like(changed, dtype=torch.bool).tril(diagonal=-1)
    assert changed[before].max() <= 1e-12


@over()
def test_a_token_changes_the_logits_of_its_own_and_every_later_place_of_its_segment(config):
    changed = influence(build(config), count=1)
    assert changed[torch.ones_like(changed, dtype=torch.bool).triu()].min() > 1e-6
