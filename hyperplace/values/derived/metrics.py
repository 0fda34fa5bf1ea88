"""What a placement costs each part, and all parts together."""

from collections import Counter
from dataclasses import replace

from hyperplace.values.derived.shards import has_kernels
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Metrics, PartMetrics, Plan, PlannedLayer, Settings
from hyperplace.values.ranges import Ranges, count, union

Amounts = Counter[int]  # of each part

# Partitioners weigh blocks in whole ticks, so that their sums are this far from what the same filters weigh here.
ROUNDING = 1e-5


def metrics(plan: Plan) -> Metrics:
    """Return the plan's metrics, of which only who found it and what is proven are taken over."""
    settings = plan.settings
    parts = _parts(plan)
    volume = sum(message.num_bytes for message in plan.messages)
    back = sum(message.num_bytes for message in plan.messages if message.learns)
    work = [part.work for part in parts]
    limit = balance_limit(sum(work), settings.k, settings.imbalance)
    return replace(
        plan.metrics,
        parts=parts,
        volume_bytes=volume,
        training_volume_bytes=volume + back + sum(replica.training_bytes for replica in plan.replicas),
        data_parallel_bytes=2 * (settings.k - 1) * plan.parameter_bytes,
        feasible=max(work) <= limit * (1 + ROUNDING),
        judges_training=settings.grain == "hybrid",
    )


def _parts(plan: Plan) -> tuple[PartMetrics, ...]:
    work, held, saved = Amounts(), Amounts(), Amounts()
    for layer in plan.layers:
        cells, kernels = _cells(layer), _kernels(layer, plan.settings)
        kernel_bytes = layer.facts.kernel_bytes if kernels else 0
        work.update(work_of(layer, plan.settings))
        held.update(_shared(layer.facts.parameter_bytes - kernel_bytes, _filters(layer), layer.num_filters))
        held.update(_shared(kernel_bytes, kernels, kernels.total()))
        saved.update({part: count * layer.facts.saved_bytes for part, count in cells.items()})
    sent, received, num_sent, num_received = Amounts(), Amounts(), Amounts(), Amounts()
    for message in plan.messages:
        sent[message.source] += message.num_bytes
        received[message.target] += message.num_bytes
        num_sent[message.source] += 1
        num_received[message.target] += 1
    kept = saved + received
    memory = held + held + kept
    columns = (work, held, kept, memory, sent, received, num_sent, num_received)
    return tuple(PartMetrics(*(column[part] for column in columns)) for part in range(plan.settings.k))


def work_of(layer: PlannedLayer, settings: Settings) -> Amounts:
    """Return what each part does of a layer's work."""
    work, kernels = Amounts(), _kernels(layer, settings)
    work.update(_shared(layer.work.total, _cells(layer), layer.num_filters * settings.batch))
    work.update(_shared(layer.kernel_work.total, kernels, kernels.total()))
    return work


def _cells(layer: PlannedLayer) -> Amounts:
    """Return how many cells each part owns."""
    cells = Amounts()
    for owner in layer.owners:
        cells[owner.part] += count(owner.filters) * (owner.rows[1] - owner.rows[0])
    return cells


def _filters(layer: PlannedLayer) -> Amounts:
    """Return of how many filters each part owns any cell."""
    pieces: dict[int, list[Ranges]] = {}
    for owner in layer.owners:
        pieces.setdefault(owner.part, []).append(owner.filters)
    return Amounts({part: count(union(filters)) for part, filters in pieces.items()})


def _kernels(layer: PlannedLayer, settings: Settings) -> Amounts:
    """Return how many kernels, filter by channel, each part computes where they lie as they please."""
    kernels = Amounts()
    for shard in layer.shards if has_kernels(layer, settings) else ():
        kernels[shard.part] += count(shard.filters) * count(shard.channels)
    return kernels


def _shared(total: int, amounts: Amounts, of: int) -> dict[int, int]:
    """Return each part's share of a total by its amount of what there is, to the nearest whole number."""
    return {part: (2 * total * amount + of) // (2 * of) for part, amount in amounts.items()}
