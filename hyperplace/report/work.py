"""Work in words a reader knows: units of a hypergraph ("196608 flops", "1e-05 us") as GFLOP or ms.

The coarse and the fine hypergraph of a model count in different units, so tables must not show the bare weights.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hyperplace.values.profile import size_and_unit

PREFIXES = {
    "flops": (("FLOP", 1.0), ("kFLOP", 1e3), ("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12)),
    "us": (("us", 1.0), ("ms", 1e3), ("s", 1e6)),
}


@dataclass(frozen=True)
class WorkScale:
    """The unit of one table."""

    name: str
    size: float

    def of(self, work: float, work_unit: str) -> float:
        """Return work, counted in the hypergraph's unit, in the table's."""
        return work * size_and_unit(work_unit)[0] / self.size


def work_scale(amounts: Iterable[tuple[float, str]]) -> WorkScale:
    """Return the largest unit in which the smallest positive (work, work unit) is at least 1."""
    known = list(amounts)
    bases = {size_and_unit(unit)[1] for _, unit in known}
    base = bases.pop() if len(bases) == 1 else ""
    low = min((work * size_and_unit(unit)[0] for work, unit in known if work > 0), default=0.0)
    scales = [WorkScale(*prefix) for prefix in PREFIXES.get(base, ((base or "units", 1.0),))]
    return max((scale for scale in scales if scale.size <= low), key=lambda s: s.size, default=scales[0])
