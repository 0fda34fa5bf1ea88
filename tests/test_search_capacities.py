"""Searches with capacities of every part's own, and another objective than bytes."""

from functools import partial

import numpy as np
import pytest
import torch
from search_cases import (
    few_moves,  # noqa: F401 - for every test here
    graphed,
    is_balanced,
    settings,
    tiny,
)
from torch import nn

from hyperplace import search
from hyperplace.errors import BalanceError
from hyperplace.search import Watch, fine
from hyperplace.steps.symmetric import hybrid_local
from hyperplace.values.capacities import Capacities
from hyperplace.values.layout import partition_of
from hyperplace.values.partition import is_feasible, work_per_part


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
@pytest.mark.parametrize("partitioner", [*search.SYMMETRIC, "kahypar", "vcycle"])
def test_parts_may_have_capacities_of_their_own(monkeypatch, partitioner, grain):
    few = partial(hybrid_local.search_modes, num_moves=5000, num_restarts=2)
    monkeypatch.setattr(hybrid_local, "search_modes", few)
    monkeypatch.setattr(fine, "FINE_BLOCKS", (4,))
    asked, shares = settings(3, partitioner, grain=grain), (3.0, 1.0, 2.0)
    for order in ((0, 1, 2), (2, 0, 1)):
        capacities = Capacities.shared([shares[part] for part in order], 0.2)
        layout = search.search(*tiny(), asked, Watch(5.0), capacities=capacities)
        hypergraph = search.hypergraph_of(*tiny(), layout, asked)
        work = work_per_part(hypergraph, partition_of(layout, hypergraph))
        assert capacities.admit(work)
        assert not is_feasible(work, 0.2), "the largest part is used"


def test_capacities_that_cannot_be_met_are_told():
    with torch.device("meta"):
        module = nn.Sequential(nn.Flatten(), *(nn.Linear(48, 48) for _ in range(3)))
        model = graphed(module, torch.empty(2, 3, 4, 4))
    asked = settings(2, fc="whole")
    with pytest.raises(BalanceError, match=r"no placement within Capacities\(1.2, 0.8 of the average\)"):
        search.search(*model, asked, Watch(2.0), capacities=Capacities([1.2, 0.8]))
    layout = search.search(*model, asked, Watch(2.0), capacities=Capacities([0.67, 1.34]))
    assert layout.num_parts == 2


@pytest.mark.parametrize("grain", ["coarse", "hybrid"])
def test_the_best_is_chosen_by_the_objective(monkeypatch, grain):
    """An objective that has nothing to do with bytes: how many cells part 1 owns."""
    few = partial(hybrid_local.search_modes, num_moves=5000, num_restarts=2)
    monkeypatch.setattr(hybrid_local, "search_modes", few)
    judged, shown = [], []

    def cells_of_part_1(layout):
        planes = layout.owners.values()
        sizes = [np.outer(np.diff(plane.lines), np.diff(plane.columns))[plane.parts == 1].sum() for plane in planes]
        judged.append((float(sum(sizes)), layout))
        return judged[-1][0]

    objective = search.Objective("cells", cells_of_part_1)
    asked = settings(2, imbalance=0.3, grain=grain)
    layout = search.search(*tiny(), asked, Watch(5.0, on_progress=shown.append), objective=objective)
    assert layout.bound_bytes is None, "bounds are of bytes"
    balanced = [cost for cost, layout in judged if is_balanced(layout, asked)]
    assert min(balanced) < max(balanced)
    assert cells_of_part_1(layout) == min(balanced)
    assert any("cells" in text for text in shown)
