"""Relative positions: sinusoids of distances, projected for all layers and for several segments at once."""

# S seeds · G segments · H heads · W distances · E head width · D width; E and D padded

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rmt.gpu.dropout import DISTANCES, Dropout
from rmt.gpu.padding import PaddedParameters
from rmt.gpu.settings import EngineSettings
from rmt.gpu.shapes import ShapeTables
from rmt.gpu.weight_gradients import WeightGradients, sum_format
from rmt.nn.axis import Axis


class RelativeDistances:
    """The distances of an update's segments, as the layers score them.

    Without dropout all segments of a shape have the same; with it, each has a mask of its own.
    """

    def __init__(self, project: PaddedParameters, tables: ShapeTables, settings: EngineSettings):
        """`project` are the weights (H, E, D) of every layer."""
        self.project, self.tables, self.settings = project, tables, settings
        self.begin(0)

    def begin(self, segments: int) -> None:
        """Begin an update of so many segments, if that is known."""
        self.segments = segments
        self.batches: list[ProjectedDistances] = []
        self.by_segment: dict[tuple[int, ...], SegmentDistances] = {}

    def of_segment(self, axis: Axis, dropout: Dropout) -> SegmentDistances:
        """Those of a segment; the first that asks has them made for all that are to come."""
        segment = dropout.segment if dropout.probability else 0
        key = (*axis.mask.shape[-2:], segment)
        if key not in self.by_segment:
            stop = self.segments if dropout.probability else 0
            self.add_batch(axis, dropout, range(segment, max(stop, segment + 1)))
        return self.by_segment[key]

    def add_batch(self, axis: Axis, dropout: Dropout, segments: range) -> None:
        """Project the distances of segments in a row; `dropout` is that of the first."""
        table, drop = self.tables.sinusoids(axis), dropout.at(DISTANCES)
        rows = table.expand(self.project.seeds, len(segments), -1, -1)
        if drop is not None:
            rows = self.settings.operations.dropout(rows, drop, len(segments))
        batch = project_distances(rows, self.project.stored, self.settings)
        self.batches.append(batch)
        for index, segment in enumerate(segments):
            self.by_segment[*axis.mask.shape[-2:], segment] = SegmentDistances(batch, index)

    def deliver(self) -> None:
        """Hand the weights that project their gradient."""
        for batch in self.batches:
            self.project.deliver(batch.projection_gradient())


class ProjectedDistances(NamedTuple):
    """The distances of G segments that were projected at once."""

    rows: Tensor  # (S, G, W, D) sinusoids
    projected: Tensor  # (layers, G, H · S, W, E)
    gradients: WeightGradients  # of `projected`, as layers · G matrices

    def projection_gradient(self) -> Tensor:
        """The gradient of the weights that project, (layers, S, H, E, D)."""
        layers, segments, groups, distances, width = self.projected.shape
        seeds = len(self.rows)
        shape = (layers, segments, groups // seeds, seeds, distances, width)
        gradient = self.gradients.finish().view(shape).permute(0, 3, 2, 5, 1, 4).flatten(-2)
        return gradient @ self.rows.flatten(1, 2).to(gradient.dtype)[:, None]


class SegmentDistances(NamedTuple):
    """The distances of one segment."""

    batch: ProjectedDistances
    number: int  # of the segment in it

    @property
    def projected(self) -> Tensor:
        """(layers, H · S, W, E)."""
        return self.batch.projected[:, self.number]

    def add(self, layer: int, to_scores: Tensor, position: Tensor) -> None:
        """A layer scored queries (H · S, N, E) by distances; the scores' gradients are (H · S, N, W)."""
        gradients = self.batch.gradients
        matrix = layer * self.batch.projected.shape[1] + self.number
        gradients.add(gradients.slot_of(matrix, position), to_scores)


def project_distances(rows: Tensor, project: Tensor, settings: EngineSettings) -> ProjectedDistances:
    """Sinusoids (S, G, W, D) by the projections (layers, S, H, E, D) of all layers."""
    layers, _, heads, width, _ = project.shape
    flat = rows.flatten(1, 2) @ project.transpose(0, 1).flatten(1, 3).mT  # (S, G · W, layers · H · E)
    apart = flat.view(*rows.shape[:3], layers, heads, width).permute(3, 1, 4, 0, 2, 5)
    projected = apart.flatten(2, 3).contiguous()  # (layers, G, H · S, W, E): a layer's rows are as many
    like = projected.flatten(0, 1) if settings.learns else projected[:0, 0]
    gradients = WeightGradients(like, sum_format(rows.dtype), settings.max_waiting)
    return ProjectedDistances(rows, projected, gradients)
