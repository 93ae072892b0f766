"""Relative positions: sinusoids of distances, projected for all layers and for several segments at once."""

# S seeds · G segments · H heads · W distances · E head width · D width

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rmt.gpu.weight_gradients import WeightGradients, sum_format


class Distances(NamedTuple):
    """What the layers of some segments score distances by; without dropout, all segments have the same."""

    rows: Tensor  # (S, G, W, D) sinusoids
    projected: Tensor  # (G, layers, H · S, W, E)
    gradients: WeightGradients  # of G · layers projections

    def projection_gradient(self) -> Tensor:
        """The gradient of the weights that project, (layers, S, H, E, D)."""
        segments, layers, groups, distances, width = self.projected.shape
        seeds = len(self.rows)
        shape = (segments, layers, groups // seeds, seeds, distances, width)
        gradient = self.gradients.finish().view(shape).permute(1, 3, 2, 5, 0, 4).flatten(-2)
        return gradient @ self.rows.flatten(1, 2).to(gradient.dtype)[:, None]


class SegmentDistances(NamedTuple):
    """Those of one segment."""

    distances: Distances
    number: int  # of the segment among them

    @property
    def projected(self) -> Tensor:
        """(layers, H · S, W, E)."""
        return self.distances.projected[self.number]

    def add(self, layer: int, to_scores: Tensor, position: Tensor) -> None:
        """A layer scored queries (H · S, N, E) by distances; the scores' gradients are (H · S, N, W)."""
        gradients = self.distances.gradients
        matrix = self.number * self.distances.projected.shape[1] + layer
        gradients.add(gradients.slot_of(matrix, position), to_scores)


def project_distances(rows: Tensor, project: Tensor, learns: bool, max_waiting: int) -> Distances:
    """Sinusoids (S, G, W, D) by the projections (layers, S, H, E, D) of all layers."""
    layers, _, heads, width, _ = project.shape
    flat = rows.flatten(1, 2) @ project.transpose(0, 1).flatten(1, 3).mT  # (S, G · W, layers · H · E)
    apart = flat.view(*rows.shape[:3], layers, heads, width).permute(1, 3, 4, 0, 2, 5)
    projected = apart.flatten(2, 3).contiguous()
    like = projected.flatten(0, 1) if learns else projected[:0, 0]
    return Distances(rows, projected, WeightGradients(like, sum_format(rows.dtype), max_waiting))
