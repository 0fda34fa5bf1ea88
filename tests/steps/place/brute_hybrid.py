"""What a hybrid plan moves in training, recomputed cell by cell from the graph and the owners alone."""

from collections import Counter

import numpy as np
from brute_place import pairs_read


def cells_of(planned, batch):
    """Return the owner of every (filter, row), and fail where it is not exactly one."""
    owner = np.full((planned.num_filters, batch), -1)
    for piece in planned.owners:
        for start, stop in piece.filters:
            cells = owner[start:stop, piece.rows[0] : piece.rows[1]]
            assert np.all(cells == -1), "two owners"
            cells[:] = piece.part
    assert np.all(owner >= 0), "no owner"
    return owner


def expected_activations(graph, plan):
    """Return Counter of forward bytes by (layer, source, target)."""
    batch, moved = plan.settings.batch, Counter()
    owner = {layer.name: cells_of(layer, batch) for layer in plan.layers}
    needs = {
        layer.name: np.zeros((layer.num_filters, batch, plan.settings.k), bool) for layer in graph.layers
    }  # [filter, row, part]
    for layer in graph.layers:
        for operand in layer.operands:
            makers = [(s.layer, f) for s in operand.sources for f in range(s.start, s.stop) for _ in range(s.width)]
            read = pairs_read(layer, operand)
            for part in range(plan.settings.k):
                mine = owner[layer.name] == part
                if layer.rule == "whole":
                    mine[:] = mine.any()
                wanted = read.T.astype(np.float32) @ mine > 0  # [channel, row]
                for (maker, f), rows in zip(makers, wanted, strict=True):
                    needs[maker][f, :, part] |= rows
    for layer in graph.layers:
        for source, part in np.ndindex(plan.settings.k, plan.settings.k):
            cells = int((needs[layer.name][:, :, part] & (owner[layer.name] == source)).sum())
            if cells and source != part:
                moved[layer.name, source, part] = cells * layer.map_bytes
    return moved


def expected_replicas(graph, plan):
    """Return {(layer, part, owner): (filters, parameter bytes, statistics bytes)} of all that has copies."""
    found, owned_bytes = {}, Counter()
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        owner = cells_of(planned, plan.settings.batch)
        trained = sum(p.num_bytes for p in layer.parameters if p.trained)
        is_exact = plan.settings.batch_norm == "exact"
        norms = sum("batch_norm" in call.op for call in layer.calls) if is_exact else 0
        if not (layer.parameters or norms):
            continue
        keepers = expected_keepers([set(rows) for rows in owner.tolist()], owned_bytes)
        for f, keeper in enumerate(keepers):
            owned_bytes[keeper] += trained // layer.num_filters
            for part in set(owner[f].tolist()) - {keeper}:
                filters = found.setdefault((layer.name, part, keeper), [[], 0, 0])
                filters[0].append(f)
                filters[1] += trained // layer.num_filters
                filters[2] += 2 * norms * 4  # two float32 numbers
    return found


def expected_keepers(parts_of, owned_bytes):
    """Return who owns the weights of every filter: one after the other, parts take what is due to them."""
    due = Counter()  # filters of each part, by the parts that have them
    for parts in {frozenset(parts) for parts in parts_of}:
        least_first = sorted(parts, key=lambda part: (owned_bytes[part], part))
        for number in range(sum(parts == others for others in parts_of)):
            due[parts, least_first[number % len(parts)]] += 1
    keepers = []
    for parts in map(frozenset, parts_of):
        keepers.append(min(part for part in parts if due[parts, part]))
        due[parts, keepers[-1]] -= 1
    return keepers


def training_bytes(graph, moved, copies):
    """Return all that moves in an iteration: activations, their gradients, gradients, weights and statistics."""
    activations = sum(size * (1 + (layer in graph.learning)) for (layer, _, _), size in moved.items())
    return activations + sum(2 * p + 4 * s for _, p, s in copies.values())
