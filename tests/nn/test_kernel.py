"""The Triton kernels are the naive attention: outputs and gradients, for any mask, bias, stride and length.

They run on a CUDA device, or on the CPU where TRITON_INTERPRET=1 is set and Triton is installed.
"""

import pytest
import torch
from rmt.nn.fast import rowwise
from rmt.nn.heads import INTERPRETED, KERNELS, Heads, Places
from torch import Tensor

from rmt.core.spans import Spans
from rmt.nn.attention import KeyValue, eager, fused
from rmt.nn.positions import shift

DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not KERNELS, reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]

# queries, keys, head width: one tile, two, more; a past; a width that is no power of two
SHAPES = [(24, 24, 16), (70, 90, 41), (3, 20, 8), (148, 148, 64)]


def rows(batch: int, count: int, width: int) -> Tensor:
    """(B, H, N, E) with the strides of a projection's output."""
    return made(batch, count, 2, width).detach().transpose(1, 2).requires_grad_()


def made(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.float32, requires_grad=True)


@pytest.mark.parametrize("batched", [False, True], ids=["one-mask", "mask-per-row"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(("queries", "keys", "width"), SHAPES)
def test_the_kernels_are_naive_attention(
    queries: int, keys: int, width: int, biased: bool, batched: bool
) -> None:
    from rmt.nn.kernel import attention

    torch.manual_seed(0)
    query, key, value = rows(2, queries, width), rows(2, keys, width), rows(2, keys, width)
    scores = made(2, 2, queries, keys + queries + 1)
    bias = shift(scores, keys)
    mask = torch.rand(2 if batched else 1, queries, keys, device=DEVICE) > 0.4
    mask |= torch.eye(keys, dtype=torch.bool, device=DEVICE)[keys - queries :]
    fast, _ = attention(query, key, value, bias if biased else None, mask, width**-0.5)
    term = bias if biased else torch.zeros((), device=DEVICE)
    naive = eager(query.double(), KeyValue(key.double(), value.double()), term.double(), mask[:, None]).output
    close = {"rtol": 1e-5, "atol": 1e-5} if DEVICE == "cpu" else {"rtol": 5e-3, "atol": 5e-3}  # TF32 there
    torch.testing.assert_close(fast.double(), naive, **close)
    gradient, inputs = torch.randn_like(fast), [query, key, value, *([scores] if biased else [])]
    mine = torch.autograd.grad(fast, inputs, gradient)
    theirs = torch.autograd.grad(naive, inputs, gradient.double())
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, **close)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(("queries", "keys", "width"), SHAPES)
def test_fused_attention_in_half_precision_is_naive_attention(
    queries: int, keys: int, width: int, biased: bool, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    query, key, value = rows(2, queries, width), rows(2, keys, width), rows(2, keys, width)
    bias = shift(made(2, 2, queries, keys + queries + 1), keys) if biased else torch.zeros((), device=DEVICE)
    mask = (torch.rand(2, 1, queries, keys, device=DEVICE) > 0.4).logical_or(
        torch.eye(keys, dtype=torch.bool, device=DEVICE)[keys - queries :]
    )
    halves = [tensor.to(dtype) for tensor in (query, key, value, bias)]
    fast = fused(halves[0], KeyValue(*halves[1:3]), halves[3], mask).output
    naive = eager(query, KeyValue(key, value), bias, mask).output
    torch.testing.assert_close(fast.float(), naive, rtol=2e-2, atol=2e-2)
    gradient, inputs = torch.randn_like(naive), [query, key, value]
    mine = torch.autograd.grad(fast, inputs, gradient.to(dtype))
    theirs = torch.autograd.grad(naive, inputs, gradient)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("last", [148, 75, 10])
def test_bounds_leave_out_only_what_nobody_sees(
    last: int, biased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rmt.nn.kernel import bounds

    torch.manual_seed(0)
    mask = Spans(cache=0, read=10, tokens=128, write=10).mask(device=torch.device(DEVICE))[-last:]
    limits = bounds(mask, 12)
    if last == 148:
        assert (limits.stops.tolist(), limits.starts.tolist()) == ([20, 84, 148], [0, 64, 128])
    query, key, value = (rows(2, count, 12).detach() for count in (last, 148, 148))
    bias = made(2, 2, last, 148).detach() if biased else None
    found = []
    for tiled, chosen in ((False, None), (True, None), (True, limits)):
        monkeypatch.setattr(rowwise, "tiled", lambda x, tiled=tiled: tiled)
        output = torch.zeros_like(query)
        heads = Heads(query, key, value, bias, mask[None], 0.25, chosen)
        weight = rowwise.attend(heads, output)
        gradients = [torch.zeros_like(one) for one in (query, key, value)]
        to_bias = None if bias is None else torch.zeros_like(bias)
        rowwise.attend_gradient(heads, query.flip(2), output, weight, Places(*gradients, to_bias))
        found.append([output, weight, *gradients, *([] if to_bias is None else [to_bias])])
    close = {"rtol": 1e-5, "atol": 1e-5} if DEVICE == "cpu" else {"rtol": 1e-2, "atol": 1e-2}  # TF32 there
    for naive, *mine in zip(*found, strict=True):
        for one in mine:
            torch.testing.assert_close(one, naive, **close)
