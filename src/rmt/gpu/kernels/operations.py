"""The kernels by the names of their plain twins: what the engine computes with on a GPU."""

from rmt.gpu.kernels.attention import attention, attention_gradient
from rmt.gpu.kernels.cross_entropy import cross_entropy
from rmt.gpu.kernels.fitting import max_fused_bytes
from rmt.gpu.kernels.fused_layer import fused_layer, fused_layer_gradient
from rmt.gpu.kernels.products import relu_down_gradient, up_relu
from rmt.gpu.kernels.relative import aligned, aligned_gradient, biased_queries, biased_queries_gradient
from rmt.gpu.kernels.rotary import rotate
from rmt.gpu.kernels.rows import add_norm, dropout, norm, norm_gradient
from rmt.gpu.kernels.short_attention import (
    fits_short_attention,
    short_attention,
    short_attention_gradient,
)

__all__ = [
    "add_norm", "aligned", "aligned_gradient", "attention", "attention_gradient", "biased_queries",
    "biased_queries_gradient", "cross_entropy", "dropout", "fits_short_attention", "fused_layer",
    "fused_layer_gradient", "max_fused_bytes", "norm", "norm_gradient", "relu_down_gradient", "rotate",
    "short_attention", "short_attention_gradient", "up_relu",
]  # fmt: skip
