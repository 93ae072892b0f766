"""The loss: cross-entropy summed over the positions that count."""

import torch
from torch.nn import functional as F

from rmt import Output
from rmt.tasks.segments import Segment
from rmt.train.objective import correct, loss, predictions


def test_sums_are_over_counted_positions_only():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(5, (2, 3), generator=generator)
    targets[1, 2] = logits[1, 2].argmax()
    mask = torch.tensor([[True, False, False], [True, False, True]])
    output, segment = output_of(logits, targets), Segment(targets, targets, mask)
    rows = [(0, 0), (1, 0), (1, 2)]
    expected = sum(F.cross_entropy(logits[row], targets[row]) for row in rows)
    torch.testing.assert_close(loss(output, segment), expected)
    right = correct([predictions(output, segment)] * 2, [segment] * 2)
    assert right == 2 * sum(logits[row].argmax() == targets[row] for row in rows)
    assert right >= 2


def test_nothing_is_right_where_no_prediction_is_known():
    targets = torch.tensor([[0, 1]])
    segment = Segment(targets, targets, targets >= 0)
    unknown = Output(torch.zeros(1, 2, 0), state=None, losses=targets.double())
    assert correct([predictions(unknown, segment)], [segment]) == 0


def test_positions_that_do_not_count_get_exactly_no_gradient():
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    targets = torch.tensor([[0, 1]])
    segment = Segment(targets, targets, torch.tensor([[False, True]]))
    loss(output_of(logits, targets), segment).backward()
    assert not logits.grad[0, 0].any()
    assert logits.grad[0, 1].all()


def output_of(logits, targets):
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)
    return Output(logits, state=None, losses=losses)
