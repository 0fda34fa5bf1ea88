"""Learn from a run: correct a profile by what a measured timeline shows, and plan again.

    Plan + Profile + Timeline -> Profile -> Plan

A layer that took longer within the program than alone, for want of cache or beside others, is weighed by what it took.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median

from hyperplace.errors import UsageError
from hyperplace.steps.lower import lower
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan
from hyperplace.values.profile import LayerCost, Profile, Work
from hyperplace.values.program import PartProgram, Program
from hyperplace.values.timeline import WAIT, Timeline

PASSES = ("forward", "backward", "update")
LEAST_SHARE = 1e-3  # of all work: what is less is not corrected, a clock's tick would be its measure
MOST = 8.0  # times the profile: what took longer had something else in its way

Factors = dict[str, dict[str, float]]  # by pass and layer


def corrected(graph: Graph, costs: Profile, plan: Plan, timeline: Timeline) -> Profile:
    """Return the profile with every layer's passes as long as a run of the plan has shown them."""
    if costs.unit != "us":
        raise UsageError("FLOPs cannot be corrected by seconds; plan with measured costs")
    if timeline.num_parts != plan.settings.k:
        raise UsageError(
            f"the timeline has {timeline.num_parts} parts, the plan {plan.settings.k}; is it of this plan?"
        )
    factors = _factors(lower(graph, plan, costs), timeline)
    return replace(costs, layers=tuple(_scaled(cost, factors) for cost in costs.layers))


def _scaled(cost: LayerCost, factors: Mapping[str, Mapping[str, float]]) -> LayerCost:
    def scaled(work: Work) -> Work:
        return Work(*(getattr(work, one) * factors[one].get(cost.layer, 1.0) for one in PASSES))

    return replace(cost, filter=scaled(cost.filter), kernel=scaled(cost.kernel), tail=scaled(cost.tail))


def _factors(program: Program, timeline: Timeline) -> Factors:
    """Return for every pass and layer how many times as long as planned it took, on all parts together."""
    took: dict[tuple[str, str], float] = defaultdict(float)
    planned: dict[tuple[str, str], float] = defaultdict(float)
    seen = _seen(timeline)
    for p, part in enumerate(program.parts):
        for one, label, work, layers in _shown(program, p, part):
            if work >= LEAST_SHARE * program.total_work and (p, one, label) in seen:
                for layer in layers:
                    took[one, layer] += min(seen[p, one, label], MOST * work)
                    planned[one, layer] += work
    found: Factors = {one: {} for one in PASSES}
    for (one, layer), work in planned.items():
        found[one][layer] = took[one, layer] / work
    if not planned:
        raise UsageError("no segment of the plan is in the timeline; record a run of this very plan")
    return found


def _shown(program: Program, number: int, part: PartProgram) -> Iterator[tuple[str, str, float, tuple[str, ...]]]:
    """Yield what a timeline shows of a part: pass, label, planned work and layers, equal labels together."""
    works: dict[tuple[str, str], float] = defaultdict(float)
    layers: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for index, segment in enumerate(part.segments):
        for one in PASSES:
            key = one, program.label(number, one, index)
            works[key] += getattr(segment, one)
            layers[key] |= dict.fromkeys(segment.layers)
    yield from ((*key, work, tuple(layers[key])) for key, work in works.items())


def _seen(timeline: Timeline) -> dict[tuple[int, str, str], float]:
    """Return what each kind of event of a part takes for a mini-batch, the middle one of all."""
    sums: dict[tuple[int, str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for event in timeline.events:
        if event.kind != WAIT:
            sums[event.part, event.kind, event.name][event.batch] += event.end_us - event.start_us
    return {key: median(of_batch.values()) for key, of_batch in sums.items()}
