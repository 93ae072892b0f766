"""Rows of tokens that are at places of their own: cut, appended, put together."""

# B batch · n tokens of a piece · w tokens encoded at once · T ids of the open segment · D width

from __future__ import annotations

import torch
from torch import Tensor


def cut(tokens: Tensor, done: Tensor, width: int) -> Tensor:
    """The next `width` tokens of each row behind its first `done` (B,): (B, n) -> (B, width)."""
    if bool((done == done[0]).all()):
        return tokens[:, int(done[0]) : int(done[0]) + width]
    columns = (done[:, None] + torch.arange(width)).clamp(max=tokens.shape[1] - 1)
    return tokens.gather(1, columns)


def put(result: Tensor, values: Tensor, take: Tensor, done: Tensor) -> None:
    """Write each row's first `take` (B,) of the values (B, w, …) behind its first `done` of `result`."""
    width = values.shape[1]
    if bool((take == width).all()) and bool((done == done[0]).all()):
        result[:, int(done[0]) : int(done[0]) + width] = values
        return
    row, column = (torch.arange(width) < take[:, None]).nonzero(as_tuple=True)
    result[row, done[row] + column] = values[row, column].to(result.dtype)


def last_of(hidden: Tensor, take: Tensor, before: Tensor) -> Tensor:
    """The hidden state of each row's last token (B, D), or what it was `before` if it takes none."""
    last = hidden.take_along_dim((take - 1).clamp(min=0)[:, None, None], dim=1)[:, 0]
    return last.where((take > 0)[:, None], before)


def appended(open: Tensor, length: Tensor, tokens: Tensor, take: Tensor) -> Tensor:
    """Ids (B, T), left-aligned, with the first `take` of `tokens` (B, w) behind each row's `length`."""
    width = int((length + take).max())
    wide = torch.nn.functional.pad(open, (0, width + tokens.shape[1] - open.shape[1]))
    column = length[:, None] + torch.arange(tokens.shape[1])
    return wide.scatter(1, column, tokens)[:, :width].clone()
