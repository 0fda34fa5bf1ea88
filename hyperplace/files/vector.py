"""Partition vectors: the part of every vertex, in the order of the vertices."""

import numpy as np

from hyperplace.errors import FileError
from hyperplace.files.rows import MOST_UNSEEN, parse_rows
from hyperplace.values.partition import Partition


def vector_text(partition: Partition) -> str:
    """Return the partition as one part number per line."""
    return "\n".join(map(str, partition.part_of.tolist())) + "\n"


def parse_vector(text: str, name: str, num_vertices: int, num_parts: int | None = None) -> Partition:
    """Read part numbers, one or many to a line; `name` stands for the file in errors.

    Without `num_parts` there are as many parts as the largest part number says.
    """
    rows = parse_rows(text, name)
    parts = rows.values
    limit = MOST_UNSEEN if num_parts is None else num_parts
    outside = np.flatnonzero((parts < 0) | (parts >= limit))
    if len(outside):
        raise rows.fault_at(int(outside[0]), f"part {parts[outside[0]]} is outside 0..{limit - 1}")
    if len(parts) != num_vertices:
        raise FileError(
            f"{name}: wrong length: {len(parts)} part numbers for a hypergraph of {num_vertices} vertices; "
            "give the vector made for this hypergraph (same model, --grain and --blocks)"
        )
    return Partition(parts, int(parts.max(initial=0)) + 1 if num_parts is None else num_parts)
