"""Several ways of placing one model, each as a row: the comparison, and what stands beside a plan."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.planning import Clock, OnLayer, Placement, capture, profile
from hyperplace.portfolio import search
from hyperplace.values.comparison import METHOD_NAMES, METHODS, Comparison, ComparisonRow, Method
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn


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
    time_limit_s: float = 20.0,
    name: str = "",
    on_layer: OnLayer | None = None,
    on_row: Callable[[ComparisonRow], None] | None = None,
) -> Comparison:
    """Return what every method needs for every k and imbalance: the thesis's tables with our numbers."""
    name = name or type(model).__name__
    if unknown := sorted(set(methods) - set(METHOD_NAMES)):
        raise UsageError(f"method {unknown[0]!r} is unknown; choose among {', '.join(METHOD_NAMES)}")
    graph = capture(model, sample)
    costed = profile(graph, costs=costs, batch=batch, on_layer=on_layer)
    rows = []
    for num_parts in k:
        for method in (method for method in METHODS if method.name in methods):
            for limit in imbalance if method.limited else imbalance[:1]:
                words = (method.grain, method.partitioner, costs, batch, blocks, fc, seed)
                settings = Settings(name, num_parts, limit, *words)
                rows.append(compare_row(method, graph, costed, settings, time_limit_s))
                if on_row:
                    on_row(rows[-1])
    return Comparison(name, batch, costs, blocks, fc, graph.parameter_bytes, tuple(rows))


def compare_row(
    method: Method, graph: Graph, costs: Profile, settings: Settings, time_limit_s: float = 20.0
) -> ComparisonRow:
    """Return one method's row; one that cannot meet the limit has no figures and says why."""
    from hyperplace.steps.place import place as place_step

    clock = Clock()
    limit = settings.imbalance if method.limited else None
    try:
        hypergraph, found = clock.timed("partition", lambda: search(graph, costs, settings, time_limit_s=time_limit_s))
    except (BalanceError, PartitionerError) as fault:
        return ComparisonRow.failed(method.name, settings, limit, graph.parameter_bytes, str(fault))
    plan = place_step(graph, hypergraph, found, settings)
    return ComparisonRow.of(method.name, plan, limit, clock.seconds["partition"])


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
        )
        for method in methods
    ]


def grain_rows(placements: Sequence[Placement]) -> list[ComparisonRow]:
    """Return what each grain needs, for those after the first."""
    return [
        ComparisonRow.of(p.plan.settings.grain, p.plan, p.plan.settings.imbalance, p.seconds["partition"])
        for p in placements[1:]
    ]
