"""Shallow copies compute otherwise around the same weights, and leave the module they were made of alone."""

import torch
from torch import nn

from rmt.hf.copies import with_attention, with_forward, with_part
from tests.hf.zoo import plain, texts


class Nested(nn.Module):
    """Two layers inside a part; like sharded classes, it cannot be made anew without its arguments."""

    def __new__(cls, *args):
        assert args, "a copy runs neither __new__ nor __init__"
        return super().__new__(cls)

    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU())

    def forward(self, x):
        return self.inner(x)


def test_a_part_is_replaced_in_the_copy_and_stays_in_the_module():
    module, x = Nested(3), torch.randn(2, 3)
    expected, parts = module(x), dict(module.named_modules())
    copied = with_part(module, "inner.1", nn.Identity())
    assert torch.equal(copied(x), module.inner[0](x))
    assert torch.equal(module(x), expected)
    assert dict(module.named_modules()) == parts
    assert copied.inner[0].weight is module.inner[0].weight


def test_hooks_are_called_around_another_forward():
    module, calls = Nested(3), []
    module.register_forward_pre_hook(lambda *_: calls.append("before"))
    module.register_forward_hook(lambda *_: calls.append("after"))
    copied = with_forward(module, lambda x: calls.append("other") or x)
    copied(torch.randn(2, 3))
    assert calls == ["before", "other", "after"]
    assert "forward" not in vars(module)


def test_a_copy_that_attends_otherwise_has_the_same_weights_and_numbers():
    model, inputs = plain("bert", attention="sdpa"), texts("bert", 9)
    copied = with_attention(model, "eager")
    assert copied.config._attn_implementation == copied.encoder.config._attn_implementation == "eager"
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(copied(**inputs).last_hidden_state, model(**inputs).last_hidden_state)
    for weight, original in zip(copied.parameters(), model.parameters(), strict=True):
        assert weight is original
