"""The hybrid hypergraph against DESIGN section 4 word by word, per filter and row."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from brute_build import SMALL, channel_makers, channels_of_filter
from test_build_laws import graph_of

from hyperplace.errors import UsageError
from hyperplace.files.hypergraph import FORMATS
from hyperplace.steps.build import build
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.partition import Partition, volume_bytes, work_per_part

BATCH = 4


def hypergraph(name, blocks=None, row_blocks=BATCH, **options):
    graph = graph_of(name)
    return build(graph, count_flops(graph, BATCH), grain="hybrid", blocks=blocks, row_blocks=row_blocks, **options)


def brute(graph):
    """Return (vertex -> work, Counter of (frozenset of vertices, cost)); a vertex is (layer, filter, row or None)."""
    work, readers = Counter(), defaultdict(set)
    whole = {layer.name for layer in graph.layers if layer.rule == "whole"}

    def vertex(layer, f, row):
        return (layer.name, 0, None) if layer.name in whole else (layer.name, f, row)

    for layer in graph.layers:
        for f, row in np.ndindex(layer.num_filters, BATCH):
            me = vertex(layer, f, row)
            work[me] += 6 * layer.macs / layer.num_filters
            for operand in layer.operands:
                makers = channel_makers(operand)
                for channel in (
                    range(operand.num_channels) if layer.name in whole else channels_of_filter(layer, operand, f)
                ):
                    readers[(*makers[channel], row)].add(me)
    nets = Counter()
    for layer in graph.layers:
        times = 2 if layer.name in graph.learning else 1
        trained = sum(p.num_bytes for p in layer.parameters if p.trained)
        for f in range(layer.num_filters):
            for row in range(BATCH):
                pins = {vertex(layer, f, row)} | readers[layer.name, f, row]
                if len(pins) > 1:
                    nets[frozenset(pins), layer.map_bytes * times] += 1
            copies = 2 * trained // layer.num_filters + 4 * norm_message_bytes(layer)
            if copies and layer.name not in whole:
                nets[frozenset(vertex(layer, f, row) for row in range(BATCH)), copies] += 1
    return dict(work), nets


def norm_message_bytes(layer):
    """Return the mean and the variance of every channel that a filter has in a batch norm, as one message."""
    element_bytes = layer.map_bytes * layer.num_filters // max(1, math.prod(layer.shape[1:]))
    channels = sum(call.shape[1] // layer.num_filters for call in layer.calls if call.op == "aten.batch_norm.default")
    return 2 * channels * element_bytes


def built(h):
    labels, unit = h.labels, float(h.work_unit.split()[0])
    keys = [
        (labels.layers[layer], start, row if row >= 0 else None)
        for layer, start, row in zip(
            labels.layer_of.tolist(), labels.filter_start.tolist(), labels.row_start.tolist(), strict=True
        )
    ]
    work = dict(zip(keys, (h.weights * unit).tolist(), strict=True))
    nets = Counter()
    for number, cost in enumerate(h.costs.tolist()):
        nets[frozenset(keys[pin] for pin in h.net(number).tolist()), cost] += 1
    return work, nets


@pytest.mark.parametrize("name", SMALL)
def test_per_filter_and_row_is_what_the_design_says(name):
    work, nets = built(hypergraph(name))
    expected_work, expected_nets = brute(graph_of(name))
    # A layer placed whole has a net per slice that is read, and a slice of several filters is one.
    if all(layer.rule != "whole" for layer in graph_of(name).layers):
        assert nets == expected_nets
    assert work == pytest.approx(expected_work)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("blocks", "row_blocks"), [(1, 1), (2, 3), (64, 2)])
def test_blocks_are_a_contraction_of_cells(name, blocks, row_blocks):
    single, blocked = hypergraph(name), hypergraph(name, blocks, row_blocks)
    one, many = single.labels, blocked.labels
    holder = np.full(single.num_vertices, -1)
    for number in range(blocked.num_vertices):
        inside = (one.layer_of == many.layer_of[number]) & (one.filter_start >= many.filter_start[number])
        inside &= one.filter_stop <= many.filter_stop[number]
        if many.row_start[number] >= 0:
            inside &= (one.row_start >= many.row_start[number]) & (one.row_stop <= many.row_stop[number])
        assert np.all(holder[inside] == -1)
        holder[inside] = number
    assert np.all(holder >= 0)
    parts = np.random.default_rng(blocks).integers(0, 3, blocked.num_vertices)
    coarse, fine = Partition(parts, 3), Partition(parts[holder], 3)
    assert volume_bytes(blocked, coarse) == volume_bytes(single, fine)
    units = [float(h.work_unit.split()[0]) for h in (single, blocked)]
    assert (work_per_part(blocked, coarse) * units[1]).tolist() == pytest.approx(
        (work_per_part(single, fine) * units[0]).tolist()
    )


def test_rows_are_cut_evenly_and_where_asked():
    layers = {layer.name: layer.num_filters for layer in graph_of("plain").layers}
    layout = Layout({name: Plane.by_columns(np.array([0, 1, 1, 1]), size) for name, size in layers.items()}, 2)
    labels = hypergraph("plain", 2, 2, layout=layout).labels
    assert sorted(set(labels.row_start.tolist())) == [0, 1, 2]
    assert labels.vertex(0) == "x[0:1] rows 0:1"
    assert hypergraph("plain", 2, 99).labels.row_stop.max() == BATCH
    with pytest.raises(UsageError, match="row blocks 0"):
        hypergraph("plain", 2, 0)


def test_whole_linears_are_one_block_that_may_be_split_by_rows():
    labels = hypergraph("flattened", None, 2, fc="whole").labels
    for number, layer in enumerate(graph_of("flattened").layers):
        if layer.kind == "linear":
            mine = labels.layer_of == number
            assert (labels.filter_start[mine].tolist(), labels.row_start[mine].tolist()) == ([0, 0], [0, 2])


@pytest.mark.parametrize("format", FORMATS)
def test_it_goes_to_files_like_the_others(format):
    h = hypergraph("residual", 2, 2)
    read = FORMATS[format].parse(FORMATS[format].text(h), "h")
    assert np.array_equal(read.pins, h.pins)
    assert np.array_equal(read.costs, h.costs)
