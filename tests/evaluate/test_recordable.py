"""Every work of sessions and evaluation can be recorded: it stays on a device, no shape depends on data.

On the device `meta` tensors have shapes only: whoever asks for what they hold gets an error.
"""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rmt import SegmentModel
from rmt.evaluate.evaluate import force_segment
from rmt.evaluate.generate import predict_segment
from rmt.evaluate.perplexity import score_segment
from rmt.infer.finite import flags
from rmt.infer.segments import SegmentKind, SegmentSums, whole_segment
from tests.laws.models import KINDS, LENGTH, configuration

DEVICE = torch.device("meta")
SLOTS = (8, 4)


class OneDevice(TorchDispatchMode):
    """An error where anything comes from another device or goes there."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        assert {tensor.device for tensor in tensors} <= {DEVICE}, function
        return result


@pytest.mark.covering
@pytest.mark.parametrize("cutoffs", [(), (3, 7)], ids=["softmax", "adaptive"])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_segment_needs_nothing_but_its_device(kind, cutoffs):
    model = SegmentModel(configuration(kind, cutoffs=cutoffs)).to(DEVICE).eval()
    state, tokens = model.initial_state(4), torch.zeros(4, LENGTH, dtype=torch.long, device=DEVICE)
    both, slots = torch.stack([tokens, tokens]), SLOTS if cutoffs else ()
    begun, loss = tokens[:, 0] > 0, tokens[:, 0].double()
    sums = SegmentSums(torch.zeros(4, model.config.width, device=DEVICE), begun, loss, flags(DEVICE))
    with OneDevice():
        results = [
            whole_segment(model, SegmentKind("log_probs", True, slots), state, tokens, *sums),
            score_segment(model, slots, state, both, loss[0]),
            force_segment(model, (), state, both),
            predict_segment(model, (0,), state, tokens, tokens[:, 0]),
            predict_segment(model, (0, 1, 3), state, tokens, tokens[:, 0]),
        ]
    for after, _ in results:
        forms = [[(part.shape, part.dtype) for part in parts.flat()] for parts in (after, state)]
        assert forms[0] == forms[1]
