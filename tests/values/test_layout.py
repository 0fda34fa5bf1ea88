"""Layouts: checked when made, equal where they say the same, and cell by cell worth what nets and plan say."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from share_cases import captured

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.steps.build import build
from hyperplace.steps.place import check_volume, place
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.layout import NOBODY, Layout, Plane, layout_of, partition_of
from hyperplace.values.partition import Partition, volume_bytes, work_per_part
from hyperplace.values.plan import Settings

BATCH, PARTS = 4, 3
NAMES = ["chain", "residual", "concat", "grouped", "depthwise", "flattened", "whole softmax", "slices", "two readers"]
GRAINS = {"coarse": {"blocks": 3}, "fine": {"blocks": 3}, "hybrid": {"blocks": 3, "row_blocks": 3}}


@cache
def profile_of(name):
    return count_flops(captured(name), BATCH)


def random_layout(name, grain, seed):
    """Return a random partition of the grain's blocks, and it as a layout."""
    hypergraph = build(captured(name), profile_of(name), grain=grain, **GRAINS[grain])
    parts = np.random.default_rng(seed).integers(0, PARTS, hypergraph.num_vertices)
    found = Partition(parts, PARTS, "random")
    return hypergraph, found, layout_of(hypergraph, found, BATCH)


def cells(plane):
    """Return the part of every line and column, painted block by block."""
    painted = np.full((plane.lines[-1], plane.columns[-1]), -9)
    for i, j in np.ndindex(plane.parts.shape):
        painted[plane.lines[i] : plane.lines[i + 1], plane.columns[j] : plane.columns[j + 1]] = plane.parts[i, j]
    return painted


def reads(layer, operand, filter_, channel):
    if operand.reads == "all":
        return True
    if operand.reads == "same":
        return filter_ == channel
    return filter_ * layer.groups // layer.num_filters == channel * layer.groups // operand.num_channels


def brute_volume(name, layout, in_training):
    """Return the bytes that cross, cell by cell: who has a cell, who reads it, who has a copy of a filter's weights."""
    graph = captured(name)
    owner = {layer: cells(plane) for layer, plane in layout.owners.items()}
    kernels = {layer: cells(plane) for layer, plane in layout.kernels.items()}
    touched = {(layer.name, f, r): {owner[layer.name][f, r]} for layer in graph.layers for f, r in all_cells(layer)}
    total = 0
    for layer in graph.layers:
        for operand in layer.operands:
            makers = [(s.layer, f) for s in operand.sources for f in range(s.start, s.stop) for _ in range(s.width)]
            for f, row in all_cells(layer):
                for channel, (maker, number) in enumerate(makers):
                    if layer.name in kernels:
                        part = kernels[layer.name][f, channel]
                    else:
                        part = owner[layer.name][f, row] if reads(layer, operand, f, channel) else NOBODY
                    if part != NOBODY:
                        touched[maker, number, row].add(part)
        for f in range(layer.num_filters):
            if layer.name in kernels:
                helpers = set(kernels[layer.name][f].tolist()) - {NOBODY, owner[layer.name][f, 0]}
                total += len(helpers) * layer.partial_bytes * BATCH
            copies = len(set(owner[layer.name][f].tolist())) - 1
            trained = sum(p.num_bytes for p in layer.parameters if p.trained) // layer.num_filters
            total += copies * 2 * trained
    for layer in graph.layers:
        times = 2 if in_training and layer.name in graph.learning else 1
        total += sum((len(touched[layer.name, f, r]) - 1) * layer.map_bytes * times for f, r in all_cells(layer))
    return total


def all_cells(layer):
    return np.ndindex(layer.num_filters, BATCH)


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("name", NAMES)
def test_cells_nets_and_plan_cost_the_same(name, grain):
    graph, profile = captured(name), profile_of(name)
    for seed in range(2):
        hypergraph, found, layout = random_layout(name, grain, seed)
        volume = brute_volume(name, layout, grain == "hybrid")
        assert volume_bytes(hypergraph, found) == volume
        settings = Settings(
            model=name, k=PARTS, imbalance=9.0, grain=grain, partitioner="random", costs="flops", batch=BATCH
        )
        plan = place(graph, profile, layout, settings)
        assert plan.metrics.judged_bytes == volume
        check_volume(plan, volume)
        with pytest.raises(HyperplaceError, match="nets of the hypergraph cost"):
            check_volume(plan, volume + 1)


@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("name", NAMES)
def test_a_layout_is_a_partition_of_every_hypergraph_that_is_cut_where_its_owners_change(name, grain):
    hypergraph, found, layout = random_layout(name, grain, 1)
    assert partition_of(layout, hypergraph) == found
    unit = float(hypergraph.work_unit.split()[0])
    for options in ({"blocks": 1, "row_blocks": 1}, {"blocks": None, "row_blocks": BATCH}):
        other = build(captured(name), profile_of(name), grain=grain, layout=layout, **options)
        there = partition_of(layout, other)
        assert layout_of(other, there, BATCH) == layout
        assert volume_bytes(other, there) == volume_bytes(hypergraph, found)
        work = work_per_part(other, there) * float(other.work_unit.split()[0])
        assert work.tolist() == pytest.approx((work_per_part(hypergraph, found) * unit).tolist())


def test_a_hypergraph_that_is_cut_elsewhere_is_refused():
    _, _, layout = random_layout("chain", "hybrid", 0)
    rough = build(captured("chain"), profile_of("chain"), grain="hybrid", blocks=1, row_blocks=1)
    with pytest.raises(HyperplaceError, match="several parts have a vertex of"):
        partition_of(layout, rough)


def test_a_partition_of_something_else_is_refused():
    hypergraph, found, _ = random_layout("chain", "coarse", 0)
    with pytest.raises(UsageError, match="does not say which filters"):
        layout_of(replace(hypergraph, labels=None), found, BATCH)
    with pytest.raises(UsageError, match=rf"the partition has 1 vertices, the hypergraph {hypergraph.num_vertices}"):
        layout_of(hypergraph, Partition([0], PARTS), BATCH)


def test_equal_neighbours_are_one_block():
    fine = Plane(np.arange(5), np.arange(4), np.array([[0, 0, 1]] * 3 + [[0, 0, 2]]))
    assert fine == Plane([0, 3, 4], [0, 2, 3], [[0, 1], [0, 2]])
    assert repr(fine) == "Plane(4 x 3 in 2 x 2 blocks)"
    stacked = Plane.stacked([Plane.by_lines(np.array([1, 2]), 3), Plane.by_columns(np.array([2, 2, 0]), 1)])
    assert cells(stacked).tolist() == [[1, 1, 1], [2, 2, 2], [2, 2, 0]]


def test_says_what_it_is():
    _, _, layout = random_layout("chain", "fine", 0)
    assert repr(layout) == "Layout(4 layers on 3 parts by random, 4 split, 3 in kernels)"
    assert layout == replace(layout)
    assert layout != replace(layout, num_parts=PARTS + 1)


@pytest.mark.parametrize(
    ("lines", "columns", "parts", "text"),
    [
        ([0, 2], [0, 1], [[0], [1]], "2 x 2 edges, but blocks"),
        ([0, 2, 2], [0, 1], [[0], [1]], "do not rise from 0"),
        ([1, 2], [0, 1], [[0]], "do not rise from 0"),
        ([0], [0, 1], np.zeros((0, 1)), "1 x 2 edges"),
    ],
)
def test_what_is_no_plane(lines, columns, parts, text):
    with pytest.raises(HyperplaceError, match=text):
        Plane(lines, columns, parts)


def test_what_is_no_layout():
    plane = Plane.by_lines(np.array([0, 1, 2]), BATCH)
    for owners, kernels, text in (
        ({}, {}, "it has no layers"),
        ({"a": plane, "b": Plane.by_lines(np.array([0]), 9)}, {}, "different numbers of rows"),
        ({"a": Plane.by_lines(np.array([0, 3]), BATCH)}, {}, r"a is on parts 0\.\.3, outside 0\.\.2"),
        ({"a": Plane.by_lines(np.array([0, NOBODY]), BATCH)}, {}, r"a is on parts -1\.\.0"),
        ({"a": plane}, {"b": plane}, "the kernels of b are not of its filters"),
    ):
        with pytest.raises(HyperplaceError, match=text):
            Layout(owners, 3, kernels)
