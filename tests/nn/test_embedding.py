"""An output layer with a gain: it starts at the marginal, whatever comes in; a gain of one is none."""

import pytest
import torch

from rmt.nn.adaptive import AdaptiveEmbedding
from rmt.nn.embedding import GAIN_SCALE, TiedEmbedding
from tests.laws.models import assert_same

TOKENS, WIDTH = 12, 8
EMBEDDINGS = {
    "one-table": lambda gained: TiedEmbedding(TOKENS, WIDTH, gained),
    "clusters": lambda gained: AdaptiveEmbedding(TOKENS, WIDTH, (5, 9), gained=gained),
    "narrow-clusters": lambda gained: AdaptiveEmbedding(TOKENS, WIDTH, (5, 9), div_val=2, gained=gained),
}
over_embeddings = pytest.mark.parametrize("build", EMBEDDINGS.values(), ids=EMBEDDINGS)


def drawn(build, gained):
    torch.manual_seed(0)
    embedding = build(gained)
    for parameter in embedding.parameters():
        torch.nn.init.normal_(parameter)
    if gained:
        torch.nn.init.zeros_(embedding.gain)
    return embedding


@over_embeddings
def test_at_the_start_every_token_is_predicted_as_often_as_it_comes(build):
    frequencies = torch.rand(TOKENS).softmax(0)
    embedding = drawn(build, gained=True)
    embedding.start_at(frequencies)
    hidden = torch.randn(2, 3, WIDTH)
    predicted = embedding.logits(hidden).softmax(-1)
    assert_same(predicted, frequencies.expand_as(predicted))
    losses = embedding.losses(hidden, torch.arange(6).view(2, 3))
    assert_same(losses, -frequencies[:6].log().view(2, 3))


@over_embeddings
def test_a_gain_of_one_is_the_tied_output_layer(build):
    tied, gained = drawn(build, gained=False), drawn(build, gained=True)
    gained.load_state_dict({**tied.state_dict(), "gain": torch.full((WIDTH,), 1 / GAIN_SCALE)})
    hidden, targets = torch.randn(2, 3, WIDTH), torch.tensor([[0, 4, 5], [8, 9, 11]])
    assert_same(gained.logits(hidden), tied.logits(hidden))
    assert_same(gained.losses(hidden, targets), tied.losses(hidden, targets))


def test_the_gain_learns_although_it_starts_at_zero():
    embedding = drawn(EMBEDDINGS["one-table"], gained=True)
    embedding.losses(torch.randn(2, 3, WIDTH), torch.arange(6).view(2, 3)).sum().backward()
    assert embedding.gain.grad.abs().min() > 0
    assert embedding.weight.grad.abs().max() == 0
