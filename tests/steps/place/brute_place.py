"""What a plan must be, recomputed filter by filter from the graph, the owners and the shards."""

from collections import Counter

import numpy as np

from hyperplace.steps.place import check_volume, place
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import volume_bytes, work_per_part


def place_partition(graph, hypergraph, partition, settings):
    """Return the plan of a partition; its messages cost what the nets do."""
    layout = layout_of(hypergraph, partition, settings.batch)
    plan = place(graph, count_flops(graph, settings.batch), layout, settings)
    check_volume(plan, volume_bytes(hypergraph, partition))
    return plan


def same_work(plan, hypergraph, partition):
    """Say whether both weigh every part the same, each in its own unit."""
    ours, theirs = (int(unit.split()[0]) for unit in (plan.metrics.work_unit, hypergraph.work_unit))
    work = work_per_part(hypergraph, partition).tolist()
    return [part * ours for part in plan.metrics.work_per_part] == [part * theirs for part in work]


def filters_in(ranges):
    return [f for start, stop in ranges for f in range(start, stop)]


def pairs_read(layer, operand):
    """Return the grid (filter, channel) of what the filters read of an operand."""
    shape = (layer.num_filters, operand.num_channels)
    if operand.reads == "all":
        return np.ones(shape, bool)
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    if operand.reads == "same":
        return rows == columns
    return rows * layer.groups // shape[0] == columns * layer.groups // shape[1]


def pairs_computed(layer, planned):
    """Return how many shards compute each (filter, channel) pair of the first operand that some filter reads."""
    count = np.zeros((layer.num_filters, layer.operands[0].num_channels), np.int8)
    for shard in planned.shards:
        for start, stop in shard.filters:
            for low, high in shard.channels:
                count[start:stop, low:high] += 1
    return count


def parts_of_filters(planned):
    """Return the owner of every filter, and fail where it is not exactly one."""
    owned = sorted((f, owner.part) for owner in planned.owners for f in filters_in(owner.filters))
    assert [f for f, _ in owned] == list(range(planned.num_filters))
    return [part for _, part in owned]


def expected_messages(graph, plan, is_split):
    """Return Counter of bytes by (kind, layer, source, target); `is_split` says which layers have kernels."""
    planned = {layer.name: layer for layer in plan.layers}
    owner = {name: parts_of_filters(layer) for name, layer in planned.items()}
    needs = {layer.name: [set() for _ in range(layer.num_filters)] for layer in graph.layers}
    messages = Counter()
    for layer in graph.layers:
        split = is_split(layer)
        for operand in layer.operands:
            makers = [(s.layer, f) for s in operand.sources for f in range(s.start, s.stop) for _ in range(s.width)]
            for part, channels in _channels_by_part(layer, operand, owner[layer.name], planned[layer.name], split):
                for channel in channels:
                    maker, number = makers[channel]
                    needs[maker][number].add(part)
        if split:
            for part, filters in _filters_by_part(planned[layer.name]):
                for f in filters:
                    if owner[layer.name][f] != part:
                        messages["sum", layer.name, part, owner[layer.name][f]] += layer.partial_bytes
    for layer in graph.layers:
        for f, parts in enumerate(needs[layer.name]):
            for part in parts - {owner[layer.name][f]}:
                messages["map", layer.name, owner[layer.name][f], part] += layer.map_bytes
    return Counter({key: size * plan.settings.batch for key, size in messages.items()})


def _channels_by_part(layer, operand, owner, planned, split):
    if split:
        for shard in planned.shards:
            yield shard.part, filters_in(shard.channels)
    elif operand.reads == "all":
        for part in set(owner):
            yield part, range(operand.num_channels)
    else:
        per_filter, per_channel = layer.num_filters // layer.groups, operand.num_channels // layer.groups
        for f, part in enumerate(owner):
            group = f // per_filter
            yield part, [f] if operand.reads == "same" else range(group * per_channel, (group + 1) * per_channel)


def _filters_by_part(planned):
    filters = {}
    for shard in planned.shards:
        filters.setdefault(shard.part, set()).update(filters_in(shard.filters))
    return filters.items()


def planned_messages(plan):
    found = Counter()
    for kind, messages in (("map", plan.transfers), ("sum", plan.reductions)):
        for message in messages:
            assert (kind, message.layer, message.source, message.target) not in found, "two messages instead of one"
            found[kind, message.layer, message.source, message.target] += message.num_bytes
    return found


def connectivity_volume(hypergraph, part_of):
    """Return the sum over nets of (lambda - 1) * cost, and that of the input's nets alone."""
    labels, total, of_input = hypergraph.labels, 0, 0
    inputs = {int(n) for n, flag in zip(labels.layer_of, labels.is_input, strict=True) if flag}
    for number, cost in enumerate(hypergraph.costs.tolist()):
        volume = (len(set(part_of[hypergraph.net(number)].tolist())) - 1) * cost
        total += volume
        of_input += volume if int(labels.net_layer[number]) in inputs else 0
    return total, of_input
