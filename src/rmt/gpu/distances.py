"""Relative positions: sinusoids of distances, projected for all layers at once."""

# S seeds · H heads · W distances · E head width · D width

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rmt.gpu.weight_gradients import WeightGradients, sum_format


class Distances(NamedTuple):
    """What the layers score distances by."""

    rows: Tensor  # (S, W, D) sinusoids
    projected: Tensor  # (layers, H · S, W, E)
    gradients: WeightGradients  # of `projected`

    def add(self, layer: int, to_scores: Tensor, position: Tensor) -> None:
        """A layer scored queries (H · S, N, E) by distances; the scores' gradients are (H · S, N, W)."""
        self.gradients.add(self.gradients.slot_of(layer, position), to_scores)

    def projection_gradient(self) -> Tensor:
        """The gradient of the projections, (layers, S, H, E, D)."""
        seeds = len(self.rows)
        gradient = self.gradients.sums().unflatten(1, (-1, seeds)).permute(0, 2, 1, 4, 3)
        return gradient @ self.rows.to(gradient.dtype)[:, None]


def project_distances(rows: Tensor, project: Tensor, learns: bool, max_waiting: int) -> Distances:
    """Sinusoids (S, W, D) by the projections (layers, S, H, E, D) of all layers."""
    layers, seeds, heads, width, _ = project.shape
    flat = rows @ project.transpose(0, 1).flatten(1, 3).mT  # (S, W, layers · H · E)
    projected = flat.view(seeds, -1, layers, heads, width).permute(2, 3, 0, 1, 4).flatten(1, 2).contiguous()
    like = projected if learns else projected[:0]
    return Distances(rows, projected, WeightGradients(like, sum_format(rows.dtype), max_waiting))
