"""Two plans of one model side by side: what moved from part to part, and what that gains in bytes and seconds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.report.document import Block, Column, Section, Table, Text, notes
from hyperplace.report.layermap import part_list
from hyperplace.values.cells import Cells
from hyperplace.values.derived.metrics import work_of
from hyperplace.values.forecast import Forecast
from hyperplace.values.plan import Plan, PlannedLayer
from hyperplace.values.sizes import MIB

Pair = tuple[int, int]


def renumbered(plan: Plan, other: Plan) -> tuple[PlannedLayer, ...]:
    """Return the other plan's layers with its parts called as those here that have most of the same.

    Parts on equal devices are interchangeable: another number is no other placement.
    """
    import networkx as nx

    _check_alike(plan, other)
    weights = _shared_cells(plan, other)
    graph = nx.Graph()
    for (here, there), cells in weights.items():
        graph.add_edge(("here", here), ("there", there), weight=cells)
    pairs: list[dict[str, int]] = [dict(pair) for pair in nx.max_weight_matching(graph)]
    name_of = {pair["there"]: pair["here"] for pair in pairs}
    free = iter(sorted(set(range(max(plan.settings.k, other.settings.k))) - set(name_of.values())))
    name_of |= {part: next(free) for part in range(other.settings.k) if part not in name_of}
    return tuple(
        replace(layer, owners=tuple(replace(owner, part=name_of[owner.part]) for owner in layer.owners))
        for layer in other.layers
    )


def _check_alike(plan: Plan, other: Plan) -> None:
    ours, theirs = ([(layer.name, layer.num_filters) for layer in one.layers] for one in (plan, other))
    if ours != theirs or plan.settings.batch != other.settings.batch:
        raise UsageError(
            f"the plans are of {plan.settings.model}, {len(ours)} layers, batch {plan.settings.batch}, and of "
            f"{other.settings.model}, {len(theirs)} layers, batch {other.settings.batch}; give plans of the same"
        )


def _shared_cells(plan: Plan, other: Plan) -> Counter[Pair]:
    """Return how much work any two parts have in common, by the cells they own in both plans."""
    found: Counter[Pair] = Counter()
    for ours, theirs in zip(plan.layers, other.layers, strict=True):
        work = sum(work_of(ours, plan.settings).values())
        cells = ours.num_filters * plan.settings.batch
        for pair, count in _cells_of(ours, theirs).items():
            found[pair] += round(1000 * max(1, work) * count / cells)
    return found


def _cells_of(ours: PlannedLayer, theirs: PlannedLayer) -> Counter[Pair]:
    """Return the cells of a layer by who owns them in either plan."""
    pieces = [[(owner.part, (owner.filters, (owner.rows,))) for owner in one.owners] for one in (ours, theirs)]
    cells = Cells([piece for some in pieces for _, piece in some])
    sizes = np.outer(np.diff(cells.lines), np.diff(cells.columns))
    here, there = (cells.painted(some) for some in pieces)
    found: Counter[Pair] = Counter()
    for pair in {(int(a), int(b)) for a, b in zip(here.flat, there.flat, strict=True)}:
        found[pair] = int(sizes[(here == pair[0]) & (there == pair[1])].sum())
    return found


def against_section(
    plan: Plan, other: Plan, forecasts: tuple[Forecast, Forecast] | None, layers: Sequence[PlannedLayer]
) -> Section:
    """Return the figures of both, and the layers that moved; `layers` are the other plan's, renumbered."""
    table = moved_table(plan, layers)
    said = f"{len(table)} of {len(plan.layers)} layers moved" if len(table) else "no layer moved"
    blocks: list[Block] = [figures_table(plan, other, forecasts), Text(said), *([table] if len(table) else [])]
    blocks += notes(["parts of the other plan are called as those here that have most of the same"])
    return Section(tuple(blocks), "Against the other plan")


def figures_table(plan: Plan, other: Plan, forecasts: tuple[Forecast, Forecast] | None) -> Table:
    """Return what both plans cost, and what this one gains."""
    ours, theirs = (_figures(one, forecasts[n] if forecasts else None) for n, one in enumerate((plan, other)))
    gains = [there - here for here, there in zip(ours.values(), theirs.values(), strict=True)]
    shares = [100 * gain / there if there else None for gain, there in zip(gains, theirs.values(), strict=True)]
    return Table(
        (
            Column.words("what", ours),
            Column.numbers("this plan", ours.values(), form=",.2f"),
            Column.numbers("other plan", theirs.values(), form=",.2f"),
            Column.numbers("gained", gains, form=",.2f"),
            Column.numbers("gained", shares, "%"),
        )
    )


def _figures(plan: Plan, forecast: Forecast | None) -> dict[str, float]:
    found = {
        "moved in training, MiB": plan.metrics.training_volume_bytes / MIB,
        "moved forward, MiB": plan.metrics.volume_bytes / MIB,
        "max/avg work": plan.metrics.max_over_avg,
    }
    if forecast:
        found["mini-batch, ms"] = 1e3 * forecast.seconds
        found["most memory, MiB"] = max(part.total for part in forecast.memory) / MIB
    return found


def moved_table(plan: Plan, layers: Sequence[PlannedLayer]) -> Table:
    """Return the layers of which cells are on another part than in the other plan."""
    found = []
    for ours, theirs in zip(plan.layers, layers, strict=True):
        cells = _cells_of(ours, theirs)
        moved = sum(count for (here, there), count in cells.items() if here != there)
        if moved:
            found.append((ours, theirs, 100 * moved / (ours.num_filters * plan.settings.batch)))
    return Table(
        (
            Column.words("layer", [ours.name for ours, _, _ in found]),
            Column.words("was on", [_parts(theirs) for _, theirs, _ in found]),
            Column.words("is on", [_parts(ours) for ours, _, _ in found]),
            Column.numbers("moved", [share for _, _, share in found], "%"),
        )
    )


def _parts(layer: PlannedLayer) -> str:
    return part_list(sorted({owner.part for owner in layer.owners}))
