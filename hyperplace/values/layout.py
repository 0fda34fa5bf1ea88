"""The owner of every cell of every layer: what a search returns, and what a plan is made of.

A cell is one row of the batch of one filter. A layer's cells are a plane of filters by rows, cut into blocks with a
part each. In the fine grain a layer may also have kernels, a plane of filters by channels: there other parts compute
what the owner sums up. Neighbouring blocks of one part are merged, so that layouts that say the same are equal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.values.arrays import ArrayValue, Ints, frozen_ints
from hyperplace.values.hypergraph import Hypergraph, Labels
from hyperplace.values.partition import Partition

NOBODY = -1  # of a kernel: the filter does not read the channel


@dataclass(frozen=True, eq=False, repr=False)
class Plane(ArrayValue):
    """Of lines lines[i]..lines[i + 1], columns columns[j]..columns[j + 1] are on part parts[i, j]."""

    lines: Ints
    columns: Ints
    parts: Ints

    def __post_init__(self) -> None:
        lines, columns, parts = np.asarray(self.lines), np.asarray(self.columns), np.asarray(self.parts)
        if parts.shape != (len(lines) - 1, len(columns) - 1) or not parts.size:
            raise HyperplaceError(f"not a plane: {len(lines)} x {len(columns)} edges, but blocks {parts.shape}")
        for edges in (lines, columns):
            if edges[0] != 0 or np.any(np.diff(edges) < 1):
                raise HyperplaceError(f"not a plane: edges {edges[:8].tolist()} do not rise from 0")
        for name, axis, edges in (("lines", 0, lines), ("columns", 1, columns)):
            is_new = np.append(True, np.any(np.diff(parts, axis=axis) != 0, axis=1 - axis))
            parts = np.compress(is_new, parts, axis=axis)
            object.__setattr__(self, name, frozen_ints(np.append(edges[:-1][is_new], edges[-1])))
        object.__setattr__(self, "parts", frozen_ints(parts))

    def __repr__(self) -> str:
        return f"Plane({self.lines[-1]} x {self.columns[-1]} in {self.parts.shape[0]} x {self.parts.shape[1]} blocks)"

    @classmethod
    def by_lines(cls, part_of: Ints, num_columns: int) -> "Plane":
        """Return the plane whose lines have a part each."""
        return cls(np.arange(len(part_of) + 1), np.array([0, num_columns]), part_of[:, None])

    @classmethod
    def by_columns(cls, part_of: Ints, num_lines: int) -> "Plane":
        """Return the plane whose columns have a part each."""
        return cls(np.array([0, num_lines]), np.arange(len(part_of) + 1), part_of[None, :])

    @classmethod
    def stacked(cls, planes: "Sequence[Plane]") -> "Plane":
        """Return planes of the same columns below each other."""
        if len(planes) == 1:
            return planes[0]
        columns = np.unique(np.concatenate([plane.columns for plane in planes]))
        first = np.cumsum([0, *(plane.lines[-1] for plane in planes)])
        lines = [plane.lines[:-1] + start for plane, start in zip(planes, first, strict=False)]
        parts = [plane.at(plane.lines[:-1, None], columns[None, :-1]) for plane in planes]
        return cls(np.append(np.concatenate(lines), first[-1]), columns, np.concatenate(parts))

    @property
    def part_of_line(self) -> Ints:
        """The part of every line, where all its columns have one."""
        if self.parts.shape[1] > 1:
            raise HyperplaceError(f"the columns of {self} have several parts")
        return np.repeat(self.parts[:, 0], np.diff(self.lines))

    def at(self, line: Ints, column: Ints) -> Ints:
        """Return the part at every line and column."""
        return self.parts[_block(self.lines, line), _block(self.columns, column)]


def _block(edges: Ints, number: Ints) -> Ints:
    """Return the block in which every number lies."""
    return np.searchsorted(edges, number, "right") - 1


@dataclass(frozen=True, eq=False, repr=False)
class Layout(ArrayValue):
    """Who owns every cell, by layer: filters by rows; and in the fine grain who computes kernels: filters by channels.

    `bound_bytes` is a proven lower bound on the volume of any balanced layout, where there is one; `is_cut_short` says
    that a time limit or an interrupt ended the search, so that another run may find another layout.
    """

    owners: dict[str, Plane]
    num_parts: int
    kernels: dict[str, Plane] = field(default_factory=dict)
    found_by: str = ""
    bound_bytes: int | None = None
    is_cut_short: bool = False

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise HyperplaceError("not a layout: " + "; ".join(faults))

    def _faults(self) -> Iterable[str]:
        if not self.owners:
            yield "it has no layers"
        if len({int(plane.columns[-1]) for plane in self.owners.values()}) > 1:
            yield "its layers have different numbers of rows"
        for what, planes, least in (("", self.owners, 0), ("a kernel of ", self.kernels, NOBODY)):
            for layer, plane in planes.items():
                if plane.parts.min() < least or plane.parts.max() >= self.num_parts:
                    found = f"{plane.parts.min()}..{plane.parts.max()}"
                    yield f"{what}{layer} is on parts {found}, outside 0..{self.num_parts - 1}"
                if layer not in self.owners or plane.lines[-1] != self.owners[layer].lines[-1]:
                    yield f"the kernels of {layer} are not of its filters"

    def __repr__(self) -> str:
        by = f" by {self.found_by}" if self.found_by else ""
        split = sum(plane.parts.size > 1 for plane in self.owners.values())
        kernels = f", {len(self.kernels)} in kernels" if self.kernels else ""
        return f"Layout({len(self.owners)} layers on {self.num_parts} parts{by}, {split} split{kernels})"

    @property
    def batch(self) -> int:
        """The number of rows."""
        return int(next(iter(self.owners.values())).columns[-1])

    @property
    def row_cuts(self) -> set[int]:
        """The rows before which some owner changes."""
        return {row for plane in self.owners.values() for row in plane.columns[1:-1].tolist()}


def layout_of(hypergraph: Hypergraph, partition: Partition, batch: int) -> Layout:
    """Return a partition of a model's hypergraph as the owners of its cells, and who computes its kernels."""
    labels = hypergraph.labels
    if labels is None:
        raise UsageError(
            "a hypergraph from a file does not say which filters its vertices are; build it from the model"
        )
    if len(partition.part_of) != hypergraph.num_vertices:
        raise UsageError(
            f"the partition has {len(partition.part_of)} vertices, the hypergraph {hypergraph.num_vertices}; "
            "partition this model's own hypergraph (see hyperplace export)"
        )
    bounds = np.searchsorted(labels.layer_of, np.arange(len(labels.layers) + 1))
    owners, kernels = {}, {}
    for number, layer in enumerate(labels.layers):
        vertices = np.arange(bounds[number], bounds[number + 1])
        is_kernel = labels.channel_start[vertices] >= 0
        owners[layer] = _owners(labels, partition.part_of, vertices[~is_kernel], batch)
        if is_kernel.any():
            kernels[layer] = _kernels(labels, partition.part_of, vertices[is_kernel])
    return Layout(
        owners, partition.num_parts, kernels, partition.found_by, partition.bound_bytes, partition.is_cut_short
    )


def _owners(labels: Labels, part_of: Ints, cells: Ints, batch: int) -> Plane:
    rows = np.where(labels.row_start[cells] >= 0, labels.row_start[cells], 0)
    return _plane((labels.filter_start[cells], rows), part_of[cells], (int(labels.filter_stop[cells].max()), batch))


def _kernels(labels: Labels, part_of: Ints, kernels: Ints) -> Plane:
    starts = labels.filter_start[kernels], labels.channel_start[kernels]
    ends = int(labels.filter_stop[kernels].max()), int(labels.channel_stop[kernels].max())
    return _plane(starts, part_of[kernels], ends)


def _plane(starts: tuple[Ints, Ints], parts: Ints, ends: tuple[int, int]) -> Plane:
    """Return the plane of blocks that begin at these lines and columns; where none begins there is nobody."""
    (lines, line), (columns, column) = (np.unique(start, return_inverse=True) for start in starts)
    grid = np.full((len(lines), len(columns)), NOBODY)
    grid[line, column] = parts
    return Plane(np.append(lines, ends[0]), np.append(columns, ends[1]), grid)


def partition_of(layout: Layout, hypergraph: Hypergraph) -> Partition:
    """Return the layout as a partition of a hypergraph that is cut wherever it has to be.

    Kernels of a layer that has none in the layout are computed by the owner of their filters.
    """
    labels = hypergraph.labels
    assert labels is not None, "built from a model"
    part_of = np.zeros(hypergraph.num_vertices, np.int64)
    bounds = np.searchsorted(labels.layer_of, np.arange(len(labels.layers) + 1))
    for number, layer in enumerate(labels.layers):
        vertices = np.arange(bounds[number], bounds[number + 1])
        is_kernel = (labels.channel_start[vertices] >= 0) & (layer in layout.kernels)
        for plane, mine, start, stop in (
            (layout.owners[layer], vertices[~is_kernel], labels.row_start, labels.row_stop),
            (layout.kernels.get(layer), vertices[is_kernel], labels.channel_start, labels.channel_stop),
        ):
            if plane is not None and len(mine):
                lines = labels.filter_start[mine], labels.filter_stop[mine] - 1
                last = np.where(start[mine] < 0, plane.columns[-1], stop[mine]) - 1
                part_of[mine] = _parts_in(plane, lines, (np.maximum(start[mine], 0), last), layer)
    return Partition(part_of, layout.num_parts, layout.found_by, layout.bound_bytes, layout.is_cut_short)


def _parts_in(plane: Plane, lines: tuple[Ints, Ints], columns: tuple[Ints, Ints], layer: str) -> Ints:
    """Return the part of every vertex, which goes from a first to a last line, and column."""
    top, bottom = (_block(plane.lines, line) for line in lines)
    left, right = (_block(plane.columns, column) for column in columns)
    if np.any(top != bottom) or np.any(left != right):
        raise HyperplaceError(
            f"several parts have a vertex of {layer}; cut the hypergraph where the layout's owners change"
        )
    return plane.parts[top, left]
