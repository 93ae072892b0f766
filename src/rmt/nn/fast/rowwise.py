"""What the fast backbone does between its products, one kernel each; on a CPU the same in plain torch.

Rows are as wide as products want them, columns behind the true width are zero. Sums over rows (for gradients
of vectors) gather in buffers (S, blocks, …), each block by its own program: the same order every time.
"""

# S seeds · N rows · D width · F inner width · B batch · R rows of a sequence · H heads · E head width

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt.nn.heads import KERNELS, Heads, Places

if KERNELS:
    import triton

    from rmt.nn import kernel
    from rmt.nn.fast import row_tiles


def tiled(x: Tensor) -> bool:
    """Whether kernels take it."""
    return x.is_cuda


def power(size: int) -> int:
    return int(triton.next_power_of_2(size))


def add_norm(
    x: Tensor, y: Tensor | None, bias: Tensor, gain: Tensor, move: Tensor, width: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """x + y + bias and its layer norm in `dtype`; rows (S, N, D), vectors (S, D)."""
    if not tiled(x):
        total = x if y is None else x + y + bias[:, None]
        normal = F.layer_norm(total[..., :width], (width,)) * gain[:, None, :width] + move[:, None, :width]
        return total, F.pad(normal, (0, x.shape[-1] - width)).to(dtype)
    seeds, rows, padded = x.shape
    total, normal = x if y is None else torch.empty_like(x), torch.empty_like(x, dtype=dtype)
    columns = power(padded)
    height = max(1, 2048 // columns)
    row_tiles.add_norm_kernel[(triton.cdiv(rows, height), seeds)](
        x, x if y is None else y, bias, gain, move, total, normal, rows, width, padded,
        HAS_Y=y is not None, BR=height, BD=columns, num_warps=4,
    )  # fmt: skip
    return total, normal


def norm_gradient(
    gradient: Tensor,
    x: Tensor,
    gain: Tensor,
    above: Tensor | None,
    sums: Tensor,
    width: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """`above` and what comes back through the layer norm of x, in its own format and in `dtype`.

    To `sums` (S, blocks, 3, D) goes the gradient of gain and shift, and of what was added to x everywhere.
    """
    if not tiled(x):
        true, come = x[..., :width], gradient[..., :width].to(x.dtype)
        scale = (true.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
        unit = (true - true.mean(-1, keepdim=True)) * scale
        back = come * gain[:, None, :width]
        back = back - back.mean(-1, keepdim=True) - unit * (back * unit).mean(-1, keepdim=True)
        found = F.pad(back * scale, (0, x.shape[-1] - width)) + (0 if above is None else above)
        sums[:, 0, :, :width] += torch.stack([come * unit, come, found[..., :width]], 1).sum(2)
        return found, found.to(dtype)
    seeds, rows, padded = x.shape
    found, half = torch.empty_like(x), torch.empty_like(x, dtype=dtype)
    columns = power(padded)
    row_tiles.norm_gradient_kernel[(sums.shape[1], seeds)](
        gradient, x, gain, x if above is None else above, found, half, sums, rows, width, padded,
        HAS_ABOVE=above is not None, BR=max(1, min(8, 2048 // columns)),
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
        return content, (position * scale).permute(2, 0, 1, 3).contiguous()
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
        places.bias.copy_(change)


def visible(asked: Heads) -> Tensor:
    """Scores, -inf where a query does not see a key."""
    scores = asked.query @ asked.key.mT * asked.scale
    biased = scores if asked.bias is None else scores + asked.bias
    return torch.where(asked.mask[:, None], biased, -torch.inf)
