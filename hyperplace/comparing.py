"""Several ways of placing one model, each as a row: the comparison, and what stands beside a plan."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.planning import Clock, OnLayer, Placement, graph_for, placed, profile
from hyperplace.search import Watch, search
from hyperplace.values import drawn
from hyperplace.values.comparison import METHOD_NAMES, METHODS, Comparison, ComparisonRow, Method
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn


@drawn.watched("comparing")
def compare(
    model: "nn.Module",
    sample: Any,
    *,
    k: Sequence[int] = (2, 4, 8),
    imbalance: Sequence[float] = (0.1,),
    methods: Sequence[str] = METHOD_NAMES,
    costs: str = "flops",
    batch: int = 32,
    blocks: int | None = 64,
    fc: str = "neurons",
    seed: int = 0,
    row_blocks: int = 8,
    batch_norm: str = "exact",
    time_limit_s: float = 20.0,
    name: str = "",
    on_layer: OnLayer | None = None,
    on_row: Callable[[Comparison], None] = lambda so_far: None,
) -> Comparison:
    """Return what every method needs for every k and imbalance: the thesis's tables with our numbers.

    `on_row` is called with all rows so far whenever there is another one.
    """
    name = name or type(model).__name__
    if unknown := sorted(set(methods) - set(METHOD_NAMES)):
        raise UsageError(f"method {unknown[0]!r} is unknown; choose among {', '.join(METHOD_NAMES)}")
    common = Settings(
        model=name,
        k=1,
        imbalance=0.0,
        grain="coarse",
        partitioner="auto",
        costs=costs,
        batch=batch,
        blocks=blocks,
        fc=fc,
        seed=seed,
        row_blocks=row_blocks,
        batch_norm=batch_norm,
    )
    graph = graph_for(common, model, sample)
    costed = profile(graph, costs=costs, batch=batch, on_layer=on_layer)
    made = Comparison(name, batch, costs, blocks, fc, graph.parameter_bytes, (), row_blocks, batch_norm)
    for num_parts in k:
        coarse: dict[float, Layout] = {}  # by imbalance, for the grains that begin with it
        for method in (method for method in METHODS if method.name in methods):
            for limit in imbalance if method.limited else imbalance[:1]:
                settings = replace(
                    common, k=num_parts, imbalance=limit, grain=method.grain, partitioner=method.partitioner
                )
                start = coarse.get(limit) if method.partitioner == "auto" else None
                row, found = compare_row(method, graph, costed, settings, time_limit_s, coarse=start)
                if found and method.name == "auto":
                    coarse[limit] = found
                made = replace(made, rows=(*made.rows, row))
                on_row(made)
    return made


def compare_row(
    method: Method,
    graph: Graph,
    costs: Profile,
    settings: Settings,
    time_limit_s: float = 20.0,
    *,
    coarse: Layout | None = None,
) -> tuple[ComparisonRow, Layout | None]:
    """Return one method's row and placement; one that cannot meet the limit has no figures and says why."""
    clock = Clock()
    limit = settings.imbalance if method.limited else None
    try:
        watch = Watch(time_limit_s, keeps_best=False)
        found = clock.timed("partition", lambda: search(graph, costs, settings, watch, coarse=coarse))
    except (BalanceError, PartitionerError) as fault:
        return ComparisonRow.failed(method.name, settings, limit, graph.parameter_bytes, str(fault)), None
    plan = placed(graph, costs, found, settings, clock).plan
    return ComparisonRow.of(method.name, plan, limit, clock.seconds["partition"]), found


def baselines(placement: Placement) -> list[ComparisonRow]:
    """Return what the simple methods would need in the plan's place."""
    settings, grain = placement.plan.settings, placement.plan.settings.grain
    methods = [method for method in METHODS if method.grain == grain and not method.limited]
    if grain == "fine":
        methods += [replace(method, grain="fine") for method in METHODS[:2]]
    if grain == "hybrid":
        methods += METHODS[:3]
    return [
        compare_row(
            method,
            placement.graph,
            placement.profile,
            replace(settings, partitioner=method.partitioner, grain=method.grain),
        )[0]
        for method in methods
    ]


def grain_rows(placement: Placement) -> list[ComparisonRow]:
    """Return what the other grains need, where all were tried, or that they have no placement and why."""
    rows = []
    for other in placement.others:
        settings = other.plan.settings
        rows.append(ComparisonRow.of(settings.grain, other.plan, settings.imbalance, other.search_s))
    for grain, reason in placement.refused.items():
        settings = replace(placement.plan.settings, grain=grain)
        size = placement.graph.parameter_bytes
        rows.append(ComparisonRow.failed(grain, settings, settings.imbalance, size, reason))
    return rows
