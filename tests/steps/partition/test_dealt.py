"""Every layer on all parts by rows or by filters: each part gets its share, and what cannot be split stays whole."""

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.steps.partition.dealt import dealt
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition


def planes(shares, *, by_rows, batch=8):
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(64, 12))
    graph = api.capture(model, torch.zeros(2, 2, 8, 8))
    costs = api.profile(graph, costs="flops", batch=batch)
    hypergraph = api.build(graph, costs, grain="hybrid", blocks=None, row_blocks=batch)
    parts = dealt(hypergraph, shares, by_rows=by_rows)
    return layout_of(hypergraph, Partition(parts, len(shares)), batch).owners


@pytest.mark.parametrize("shares", [(1.0, 1.0), (3.0, 1.0), (1.0, 1.0, 2.0)])
def test_filters_are_dealt_out_by_share(shares):
    for layer, plane in planes(shares, by_rows=False).items():
        number = int(plane.lines[-1])
        if number > 2:  # not the input, which goes where it is read
            counts = np.bincount(plane.part_of_line, minlength=len(shares))
            assert np.abs(counts - number * np.array(shares) / sum(shares)).max() < 1, layer


@pytest.mark.parametrize("shares", [(1.0, 1.0), (3.0, 1.0), (1.0, 1.0, 2.0)])
def test_rows_are_dealt_out_by_share(shares):
    wanted = 8 * np.array(shares) / sum(shares)
    for plane in planes(shares, by_rows=True).values():
        assert plane.parts.shape[0] == 1
        rows = np.bincount(np.repeat(plane.parts[0], np.diff(plane.columns)), minlength=len(shares))
        assert rows.tolist() == wanted.tolist()
