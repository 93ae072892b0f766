"""One Transformer layer: attention and feed-forward, each inside a residual connection."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from rmt.nn.attention import Attend, Attention, KeyValue
from rmt.nn.linear import Linear


class PreNorm(nn.LayerNorm):
    """x + f(LN(x)): the residual stream stays untouched."""

    def before(self, x: Tensor) -> Tensor:
        return self(x)

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class PostNorm(nn.LayerNorm):
    """LN(x + f(x)): the original Transformer's order, and the paper's."""

    def before(self, x: Tensor) -> Tensor:
        return x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        return self(x + y)


RESIDUAL_OUTPUTS = ("attention.out.weight", "feed_forward.3.weight")  # matrices that make what a layer adds
NORMS: dict[str, Any] = {"pre": PreNorm, "post": PostNorm}


class Layer(nn.Module):
    """TL of the paper's section 3."""

    def __init__(self, attention: Attention, width: int, inner_width: int, norm: str, dropout: float):
        super().__init__()
        self.attention = attention
        self.attention_norm = NORMS[norm](width)
        self.feed_forward = nn.Sequential(
            Linear(width, inner_width),
            nn.ReLU(),
            nn.Dropout(dropout),
            Linear(inner_width, width),
            nn.Dropout(dropout),
        )
        self.feed_forward_norm = NORMS[norm](width)
        self.dropout = nn.Dropout(dropout)

    def remember(self, x: Tensor, table: Any, start: int = 0) -> KeyValue:
        """Keys and values of earlier inputs of this layer, which stand on the axis from `start` on."""
        return self.attention.remember(self.attention_norm.before(x), table, start)

    def forward(
        self, x: Tensor, past: KeyValue, table: Any, mask: Tensor, attend: Attend
    ) -> tuple[Tensor, KeyValue, Tensor]:
        attended, seen, weights = self.attention(self.attention_norm.before(x), past, table, mask, attend)
        x = self.attention_norm.after(x, self.dropout(attended))
        x = self.feed_forward_norm.after(x, self.feed_forward(self.feed_forward_norm.before(x)))
        return x, seen, weights
