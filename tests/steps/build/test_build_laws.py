"""The hypergraph against a brute-force builder, and blocks against single filters."""

from functools import cache

import numpy as np
import pytest
from brute_build import SMALL, brute, built, small_graph

from hyperplace.steps.build import build
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.partition import Partition, volume_bytes, work_per_part

BATCH = 5
graph_of = cache(small_graph)


def hypergraph(name, grain, blocks=None, fc="neurons"):
    graph = graph_of(name)
    return build(graph, count_flops(graph, BATCH), grain=grain, blocks=blocks, fc=fc)


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", SMALL)
def test_per_filter_is_what_the_design_says(name, grain):
    work, nets = built(hypergraph(name, grain))
    expected_work, expected_nets = brute(graph_of(name), BATCH, grain)
    assert nets == expected_nets
    assert work == pytest.approx(expected_work)


@pytest.mark.parametrize("grain", ["coarse", "fine"])
def test_whole_linears_are_one_vertex_each(grain):
    work, nets = built(hypergraph("flattened", grain, fc="whole"))
    expected_work, expected_nets = brute(graph_of("flattened"), BATCH, grain, solid_linears=True)
    assert nets == expected_nets
    assert work == pytest.approx(expected_work)


def contraction(single, blocked):
    """Return for every vertex of the per-filter hypergraph the vertex of the blocked one that holds it."""
    one, many = single.labels, blocked.labels
    holder = np.full(single.num_vertices, -1)
    for number in range(blocked.num_vertices):
        inside = (
            (one.layer_of == many.layer_of[number])
            & (one.filter_start >= many.filter_start[number])
            & (one.filter_stop <= many.filter_stop[number])
            & ((one.channel_start >= 0) == (many.channel_start[number] >= 0))
        )
        if many.channel_start[number] >= 0:
            inside &= (one.channel_start >= many.channel_start[number]) & (
                one.channel_stop <= many.channel_stop[number]
            )
        assert np.all(holder[inside] == -1), "a filter is in two blocks"
        holder[inside] = number
    assert np.all(holder >= 0), "a filter is in no block"
    return holder


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("blocks", [1, 2, 3, 64])
def test_blocks_are_a_contraction_of_filters(name, grain, blocks):
    single, blocked = hypergraph(name, grain), hypergraph(name, grain, blocks)
    holder = contraction(single, blocked)
    units = [float(h.work_unit.split()[0]) for h in (single, blocked)]
    random = np.random.default_rng(blocks)
    for num_parts in (2, 3, 5):
        parts = random.integers(0, num_parts, blocked.num_vertices)
        coarse, fine = Partition(parts, num_parts), Partition(parts[holder], num_parts)
        assert volume_bytes(blocked, coarse) == volume_bytes(single, fine)
        assert (work_per_part(blocked, coarse) * units[1]).tolist() == pytest.approx(
            (work_per_part(single, fine) * units[0]).tolist()
        )


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", SMALL)
def test_total_work_is_three_times_the_forward_flops(name, grain):
    h = hypergraph(name, grain, 3)
    macs = sum(layer.macs for layer in graph_of(name).layers)
    assert h.total_weight * float(h.work_unit.split()[0]) == pytest.approx(6 * macs * BATCH)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["plain", "residual", "flattened"])
def test_plain_layers_have_at_most_so_many_blocks(name, blocks):
    labels = hypergraph(name, "coarse", blocks).labels
    assert np.bincount(labels.layer_of).max() <= blocks
