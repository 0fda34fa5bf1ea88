"""The work of every layer in whole units, as a plan has it."""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Floats
from hyperplace.values.graph import Graph
from hyperplace.values.layout import NOBODY, Layout, Plane
from hyperplace.values.plan import PlannedWork
from hyperplace.values.profile import Profile, Work

TICKS = 2**30  # measured work is rounded to a tick of which a model has about so many: no layer notices


@dataclass(frozen=True)
class LayerWork:
    """The work of all cells of a layer, and of all its kernels where it is split into some."""

    cells: PlannedWork
    kernels: PlannedWork


def whole_work(graph: Graph, profile: Profile, layout: Layout) -> tuple[dict[str, LayerWork], str]:
    """Return the work of every layer, and what one unit of it is.

    Counted work is divided by what all cells and kernels have in common, so that no share of it is rounded.
    """
    amounts, pieces = {}, []
    for layer in graph.layers:
        cost, kernels = profile[layer.name], layout.kernels.get(layer.name)
        cell = (cost.filter if kernels is None else cost.tail) / layout.batch
        kernel = Work() if kernels is None else cost.kernel
        pieces += [cell.total, kernel.total]
        amounts[layer.name] = cell * (layer.num_filters * layout.batch), kernel * _num_kernels(kernels)
    unit = _unit(np.array(pieces), sum(work.total for pair in amounts.values() for work in pair))
    whole = {name: LayerWork(*(_whole(work, unit) for work in pair)) for name, pair in amounts.items()}
    return whole, f"{unit:g} {profile.unit}" if unit < 1 else f"{int(unit)} {profile.unit}"


def _num_kernels(kernels: Plane | None) -> int:
    if kernels is None:
        return 0
    sizes = np.outer(np.diff(kernels.lines), np.diff(kernels.columns))
    return int(sizes[kernels.parts != NOBODY].sum())


def _unit(pieces: Floats, total: float) -> float:
    if np.all(pieces == np.rint(pieces)) and pieces.max() < 2**62:
        return float(np.gcd.reduce(pieces.astype(np.int64)) or 1)
    return float(10.0 ** np.ceil(np.log10(total / TICKS)))


def _whole(work: Work, unit: float) -> PlannedWork:
    return PlannedWork.shared(round(work.total / unit), work)
