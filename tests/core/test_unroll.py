"""Unrolling: each segment starts from the state its predecessor left."""

import torch

import rmt
from rmt.core.unroll import unroll


class Counter(torch.nn.Module):
    """A cell whose state is the sum of all tokens before, so that its path can be read off."""

    def forward(self, tokens: torch.Tensor, state: rmt.State) -> rmt.Output:
        before = state.memory
        return rmt.Output(before, state.with_memory(before + tokens.sum()))


def test_each_segment_starts_from_the_state_its_predecessor_left():
    start = rmt.State(torch.tensor(100.0), (), torch.tensor([0]))
    segments = [torch.tensor([[1, 2]]), torch.tensor([[10, 20]]), torch.tensor([[5]])]
    assert [int(output.logits) for output in unroll(Counter(), segments, start)] == [100, 103, 133]


def test_segments_are_read_one_at_a_time_so_that_a_stream_may_be_endless():
    def endless():
        while True:
            yield torch.tensor([[1]])

    outputs = unroll(Counter(), endless(), rmt.State(torch.tensor(0.0), (), torch.tensor([0])))
    assert [int(next(outputs).logits) for _ in range(3)] == [0, 1, 2]


def test_the_public_page_offers_the_function():
    assert rmt.unroll is unroll
