"""The loss: cross-entropy summed over the positions that count."""

import torch
from torch.nn import functional as F

from rmt import Output
from rmt.tasks.segments import Segment
from rmt.train.objective import score


def test_a_score_sums_over_counted_positions_only():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(5, (2, 3), generator=generator)
    targets[1, 2] = logits[1, 2].argmax()
    mask = torch.tensor([[True, False, False], [True, False, True]])
    loss, correct = score(output_of(logits, targets), Segment(targets, targets, mask))
    rows = [(0, 0), (1, 0), (1, 2)]
    torch.testing.assert_close(loss, sum(F.cross_entropy(logits[row], targets[row]) for row in rows))
    assert correct == sum(logits[row].argmax() == targets[row] for row in rows)
    assert correct >= 1


def test_positions_that_do_not_count_get_exactly_no_gradient():
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    targets = torch.tensor([[0, 1]])
    segment = Segment(targets, targets, torch.tensor([[False, True]]))
    score(output_of(logits, targets), segment).loss.backward()
    assert not logits.grad[0, 0].any()
    assert logits.grad[0, 1].all()


def output_of(logits, targets):
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return Output(logits, state=None, losses=losses)
