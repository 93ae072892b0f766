"""What the fast backbone does between its products, one kernel each; on a CPU the same in plain torch.

Rows are as wide as products want them, columns behind the true width are zero. Sums over rows (for gradients
of vectors) gather in buffers (S, blocks, …), each block by its own program: the same order every time.
"""

# S seeds · N rows · D width · F inner width · B batch · R rows of a sequence · H heads · E head width

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.fast.banks import wide
from rmt.nn.heads import KERNELS, Heads, Places
from rmt.nn.positions import shift

if KERNELS:
    import triton

    from rmt.nn import kernel
    from rmt.nn.fast import row_tiles


def tiled(x: Tensor) -> bool:
    """Whether kernels take it."""
    return x.is_cuda


def power(size: int) -> int:
    return int(triton.next_power_of_2(size))


class Normal(NamedTuple):
    """What a layer norm makes of rows (S, N, D)."""

    rows: Tensor  # (S, N, D)
    carried: Tensor  # (S, N, D) what they were made of, and a bias, for others to add to
    moments: Tensor  # (2, S, N) means, and ones over deviations


def norm(
    x: Tensor,
    gain: Tensor,
    move: Tensor,
    width: int,
    dtype: torch.dtype,
    bias: Tensor | None = None,
    apart: bool = False,
    place: Tensor | None = None,
) -> Normal:
    """The layer norm of x in `dtype`, at its `place`; vectors are (S, D). x is carried on, or a copy."""
    if not tiled(x):
        true = x[..., :width]
        scale = (true.var(-1, correction=0) + 1e-5).rsqrt()
        moments = torch.stack([true.mean(-1), scale])
        normal = units(x, moments, width) * gain[:, None] + move[:, None]
        carried = x.clone() if apart else x
        carried += 0 if bias is None else bias[:, None]
        normal = normal.to(dtype)
        return Normal(normal if place is None else place.copy_(normal), carried, moments)
    seeds, rows, padded = x.shape
    normal = torch.empty_like(x, dtype=dtype) if place is None else place
    carried = torch.empty_like(x) if apart else x
    moments = x.new_empty(2, seeds, rows, dtype=gain.dtype)
    columns = power(padded)
    height = max(1, 2048 // columns)
    row_tiles.norm_kernel[(triton.cdiv(rows, height), seeds)](
        x, x if bias is None else bias, gain, move, carried, normal, *moments, rows, width, padded,
        HAS_BIAS=bias is not None, CARRIES=apart or bias is not None, BR=height, BD=columns, num_warps=4,
    )  # fmt: skip
    return Normal(normal, carried, moments)


def units(x: Tensor, moments: Tensor, width: int) -> Tensor:
    """Rows with mean 0 and variance 1, zero behind the true width."""
    mean, scale = moments[..., None]
    return F.pad((x[..., :width] - mean) * scale, (0, x.shape[-1] - width))


def norm_gradient(
    gradient: Tensor,
    x: Tensor,
    moments: Tensor,
    gain: Tensor,
    above: Tensor | None,
    sums: Tensor,
    width: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """`above` and what comes back through the layer norm of x, in x's format and in `dtype`.

    To `sums` (S, blocks, 3, D) goes the gradient of gain and shift, and of what was added to x everywhere.
    """
    if not tiled(x):
        unit, come = units(x, moments, width)[..., :width], gradient[..., :width].to(x.dtype)
        back = come * gain[:, None, :width]
        back = back - back.mean(-1, keepdim=True) - unit * (back * unit).mean(-1, keepdim=True)
        found = F.pad(back * moments[1, ..., None], (0, x.shape[-1] - width))
        found += 0 if above is None else above
        sums[:, 0, :, :width] += torch.stack([come * unit, come, found[..., :width]], 1).sum(2)
        return found, found.to(dtype)
    seeds, rows, padded = x.shape
    found = torch.empty_like(x)
    half = found if dtype == x.dtype else torch.empty_like(x, dtype=dtype)
    columns = power(padded)
    row_tiles.norm_gradient_kernel[(sums.shape[1], seeds)](
        gradient, x, *moments, gain, x if above is None else above, found, half, sums, rows, width, padded,
        HAS_ABOVE=above is not None, TWICE=half is not found, BR=max(1, min(8, 2048 // columns)),
        BD=columns, num_warps=2 if columns <= 1024 else 8,
    )  # fmt: skip
    return found, half


def relu(inner: Tensor, bias: Tensor) -> Tensor:
    """max(0, inner + bias), in place; (S, N, F), bias (S, F)."""
    if not tiled(inner):
        return inner.add_(bias[:, None]).relu_()
    seeds, rows, width = inner.shape
    grid = (triton.cdiv(rows, 32), triton.cdiv(width, 128), seeds)
    row_tiles.relu_kernel[grid](inner, bias, rows, width, BR=32, BD=128)
    return inner


def relu_gradient(gradient: Tensor, inner: Tensor, sums: Tensor) -> Tensor:
    """The gradient where `inner` is positive, in place; to `sums` (S, blocks, F) goes the bias's."""
    if not tiled(inner):
        gradient.mul_(inner > 0)
        sums[:, 0] += gradient.sum(1)
        return gradient
    seeds, rows, width = inner.shape
    grid = (sums.shape[1], triton.cdiv(width, 128), seeds)
    row_tiles.relu_gradient_kernel[grid](gradient, inner, sums, rows, width, BR=64, BD=128)
    return gradient


def turn(x: Tensor, cosine: Tensor, sine: Tensor, back: bool = False) -> None:
    """Rotate the halves of heads x (S·B, R, H, E) by the angles of their rows (R, E/2), or back, in place."""
    if not tiled(x):
        first, second = x.chunk(2, dim=-1)
        across, up = cosine[:, None], sine[:, None] * (-1 if back else 1)
        x.copy_(torch.cat([first * across - second * up, second * across + first * up], dim=-1))
        return
    batch, length, heads, width = x.shape
    row_tiles.turn_kernel[(triton.cdiv(batch * length, 32), heads)](
        x, cosine, sine, -1.0 if back else 1.0, batch * length, length, x.stride(1),
        HALF=width // 2, BR=32, BH=max(16, power(width // 2)),
    )  # fmt: skip


def ask(query: Tensor, biases: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """query + content (S, N, H, E), and scale · (query + position) (H, S, N, E), from biases (2, S, H, E)."""
    seeds, rows, heads, padded = query.shape
    if not tiled(query):
        content, position = (query + bias[:, None] for bias in biases)
        position = (position * scale).permute(2, 0, 1, 3).contiguous()
        return content.to(query.dtype), position.to(query.dtype)
    content, position = query.new_empty(query.shape), query.new_empty(heads, seeds, rows, padded)
    grid = (triton.cdiv(rows, 32), 1, seeds * heads)
    row_tiles.ask_kernel[grid](
        query, biases, content, position, rows, query.stride(1), heads, padded, scale, seeds,
        BR=32, BE=max(16, power(padded)),
    )  # fmt: skip
    return content, position


def ask_gradient(to_query: Tensor, to_position: Tensor, sums: Tensor, scale: float) -> None:
    """Add scale · `to_position` (H, S, N, E) to the gradient of query + content (S, N, H, E), in place.

    To `sums` (S, blocks, 2, H, E) goes the gradient of content and position.
    """
    if not tiled(to_query):
        other = to_position.permute(1, 2, 0, 3) * scale
        sums[:, 0] += torch.stack([to_query, other], 1).sum(2)
        to_query.add_(other)
        return
    seeds, rows, heads, padded = to_query.shape
    row_tiles.ask_gradient_kernel[(sums.shape[1], seeds * heads)](
        to_query, to_position, sums, rows, to_query.stride(1), heads, padded, scale, seeds,
        BR=64, BE=max(16, power(padded)),
    )  # fmt: skip


def shifted(scores: Tensor, keys: int, bounds: Any) -> Tensor:
    """Scores of distances (H, S·B, T, W) where their keys are: `shift`, written out; columns filled up."""
    *front, length, columns = scores.shape
    room = wide(keys)
    if not tiled(scores):
        return F.pad(shift(scores, keys), (0, room - keys))
    found = scores.new_empty(*front, length, room)
    rows = found[..., 0].numel()
    row_tiles.shift_kernel[(triton.cdiv(rows, 32), triton.cdiv(room, 64))](
        scores, bounds.limits, found, rows, length, columns, room, BR=32, BK=64
    )
    return found


def shifted_back(found: Tensor, columns: int, keys: int, bounds: Any) -> Tensor:
    """The gradient of `shifted`: zero at distances where no key is seen."""
    *front, length, room = found.shape
    if not tiled(found):
        scores = found.new_zeros(*front, length, columns)
        shift(scores, keys).copy_(found[..., :keys])
        return scores
    scores = found.new_empty(*front, length, columns)
    rows = found[..., 0].numel()
    row_tiles.shift_gradient_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 64))](
        found, bounds.limits, scores, rows, length, columns, room, BR=32, BW=64
    )
    return scores


def attend(asked: Heads, output: Tensor) -> Tensor:
    """`rmt.nn.kernel.attend`."""
    if tiled(output):
        return kernel.attend(asked, output)
    scores = visible(asked)
    weight = scores.logsumexp(-1)
    output.copy_((scores - weight[..., None]).exp() @ asked.value)
    return weight


def attend_gradient(asked: Heads, gradient: Tensor, output: Tensor, weight: Tensor, places: Places) -> None:
    """`rmt.nn.kernel.attend_gradient`."""
    if tiled(output):
        kernel.attend_gradient(asked, gradient, output, weight, places)
        return
    share = (visible(asked) - weight[..., None]).exp()
    back = gradient @ asked.value.mT
    change = share * (back - (share * back).sum(-1, keepdim=True))
    places.query.copy_(change @ asked.key * asked.scale)
    places.key.copy_(change.mT @ asked.query * asked.scale)
    places.value.copy_(share.mT @ gradient)
    if places.bias is not None:
        places.bias[..., : change.shape[-1]] = change


def visible(asked: Heads) -> Tensor:
    """Scores, -inf where a query does not see a key."""
    scores = asked.query @ asked.key.mT * asked.scale
    biased = scores if asked.bias is None else scores + asked.bias[..., : scores.shape[-1]]
    return torch.where(asked.mask[:, None], biased, -torch.inf)
