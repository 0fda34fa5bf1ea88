"""What the page draws of a plan: its layers with their owners, what flows between them, and where they stand."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperplace.report.layermap import part_list
from hyperplace.report.page.layout import Item, lay_out
from hyperplace.report.work import work_scale
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.messages import crossings
from hyperplace.values.derived.metrics import work_of
from hyperplace.values.plan import Plan, PlannedLayer
from hyperplace.values.profile import size_and_unit
from hyperplace.values.ranges import count
from hyperplace.values.sizes import size


def network(plan: Plan, cluster: Cluster | None = None, others: Sequence[PlannedLayer] = ()) -> dict[str, Any]:
    """Return layers, edges and items as JSON has them.

    With a cluster the work of every layer is also in seconds; `others` are the same layers in another plan.
    """
    crossing = crossings(plan.layers, plan.settings)
    names = [layer.name for layer in plan.layers]
    number = {name: place for place, name in enumerate(names)}
    other_of = {layer.name: layer for layer in others}
    layer_of = {layer.name: layer for layer in plan.layers}
    return {
        "batch": plan.settings.batch,
        "layers": [_layer(plan, layer, crossing, cluster, other_of.get(layer.name)) for layer in plan.layers],
        "edges": [
            [number[source], number[target], crossed, output_bytes(plan, layer_of[source])]
            for (source, target), crossed in crossing.items()
        ],
        "items": [_item(item, number) for item in lay_out(names, crossing)],
    }


def _item(item: Item, number: dict[str, int]) -> dict[str, Any]:
    return {
        "name": item.name,
        "row": item.spot.row,
        "column": item.spot.column,
        "isBlock": item.is_block,
        "layers": [[number[name], spot.row, spot.column] for name, spot in item.layers.items()],
    }


def _layer(
    plan: Plan,
    layer: PlannedLayer,
    crossing: dict[tuple[str, str], int],
    cluster: Cluster | None,
    other: PlannedLayer | None,
) -> dict[str, Any]:
    work = work_of(layer, plan.settings)
    return {
        "name": layer.name,
        "kind": layer.kind,
        "filters": layer.num_filters,
        "owners": owners(layer),
        "other": owners(other) if other else [],
        "work": [[part, amount] for part, amount in sorted(work.items())],
        "facts": list(_facts(plan, layer, work, cluster)),
        "why": why(plan, layer, sum(n for (_, reader), n in crossing.items() if reader == layer.name)),
    }


def owners(layer: PlannedLayer) -> list[list[Any]]:
    """Return the part, the ranges of filters and the range of rows of every piece."""
    return [[owner.part, [list(span) for span in owner.filters], list(owner.rows)] for owner in layer.owners]


def output_bytes(plan: Plan, layer: PlannedLayer) -> int:
    """Return the bytes of a layer's whole output for a mini-batch."""
    return layer.num_filters * plan.settings.batch * layer.facts.map_bytes + layer.facts.fixed_bytes


def _facts(
    plan: Plan, layer: PlannedLayer, work: Mapping[int, int], cluster: Cluster | None
) -> Iterable[tuple[str, str]]:
    """Yield what is said of a layer, each with its heading."""
    yield "kind", f"{layer.kind}, {layer.rule}"
    yield "filters", f"{layer.num_filters:,}" + (f" of {layer.num_channels:,} channels" if layer.num_channels else "")
    for owner in layer.owners:
        rows = "all rows" if owner.rows == (0, plan.settings.batch) else f"rows {owner.rows[0]} to {owner.rows[1] - 1}"
        yield f"part {owner.part}", f"{count(owner.filters):,} filters, {rows}"
    for part, amount in sorted(work.items()):
        if amount:
            yield f"work of part {part}", _work(plan, part, amount, cluster)
    yield "output", f"{size(output_bytes(plan, layer))} a mini-batch"
    if layer.facts.parameter_bytes:
        yield "parameters", size(layer.facts.parameter_bytes)
    if sent := sum(message.num_bytes for message in plan.transfers if message.layer == layer.name):
        yield "sent to other parts", f"{size(sent)} forward"
    if sums := sum(message.num_bytes for message in plan.reductions if message.layer == layer.name):
        yield "partial sums sent", f"{size(sums)} forward"
    if copied := copied_bytes(plan, layer):
        yield "copies of weights", f"{size(copied)} an iteration"


def _work(plan: Plan, part: int, amount: int, cluster: Cluster | None) -> str:
    """Return work of a mini-batch in its own unit, and in milliseconds where a device is known."""
    unit_size, unit = size_and_unit(plan.metrics.work_unit)
    scale = work_scale([(amount, plan.metrics.work_unit)])
    text = f"{scale.of(amount, plan.metrics.work_unit):,.3g} {scale.name}"
    if cluster is None or unit == "us":
        return text
    return f"{text}, {1e3 * cluster.devices[part].seconds(amount * unit_size, unit):,.3g} ms"


def copied_bytes(plan: Plan, layer: PlannedLayer) -> int:
    """Return what gradients, weights and statistics of a layer's copies move in an iteration."""
    return sum(replica.training_bytes for replica in plan.replicas if replica.layer == layer.name)


def why(plan: Plan, layer: PlannedLayer, come_bytes: int) -> str:
    """Say in a sentence why a layer is where it is."""
    parts = sorted({owner.part for owner in layer.owners})
    come = f"{size(come_bytes)} come from other parts" if come_bytes else "nothing comes from other parts"
    if layer.reason:
        return f"placed whole on part {parts[0]}: {layer.reason}; {come}"
    if len(parts) == 1:
        return f"all on part {parts[0]}: {come}"
    where = f"over parts {part_list(parts)}"
    if len(layer.row_edges) <= 2:
        return f"filters split {where}: {come}"
    copied = copied_bytes(plan, layer)
    copies = f"copies of its weights move {size(copied)} an iteration" if copied else "it has no weights to copy"
    return f"rows of the batch split {where}: {come}, {copies}"
