"""Counts against the hypergraph of single filters: what shares say they cost is what their filters cost."""

import pytest
from share_cases import AT_LEAST, EQUAL, MODELS, SLICED_WHOLE, captured, filters_apart, hypergraph_volume, random_shares

from hyperplace.steps.build import build, build_runs
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric.arrange import arrange, counted
from hyperplace.values.partition import work_per_part
from hyperplace.values.runs import shares_volume, shares_work

BATCH = 3


def both_volumes(name, fc):
    """Yield (what shares_volume says, what the hypergraph of single filters says) of random shares."""
    graph = captured(name)
    profile = count_flops(graph, BATCH)
    runs, single = build_runs(graph, profile, fc=fc), build(graph, profile, blocks=None, fc=fc)
    for seed in range(30):
        num_parts = 2 + seed % 4
        shares = random_shares(runs, num_parts, seed)
        yield shares_volume(runs, shares), hypergraph_volume(single, arrange(runs, shares, BATCH))


@pytest.mark.parametrize("fc", ["neurons", "whole"])
@pytest.mark.parametrize("name", EQUAL)
def test_shares_cost_what_their_filters_cost(name, fc):
    for said, real in both_volumes(name, fc):
        assert said == pytest.approx(real, rel=1e-12)


@pytest.mark.parametrize("fc", ["neurons", "whole"])
@pytest.mark.parametrize("name", [*AT_LEAST, *SLICED_WHOLE])
def test_no_arrangement_costs_less_than_the_shares_say(name, fc):
    """Otherwise a bound on shares is no bound on placements."""
    for said, real in both_volumes(name, fc):
        assert said <= real * (1 + 1e-12)


@pytest.mark.parametrize("fc", ["neurons", "whole"])
@pytest.mark.parametrize("name", MODELS)
def test_counting_the_arranged_filters_gives_the_shares_again(name, fc):
    graph = captured(name)
    runs = build_runs(graph, count_flops(graph, BATCH), fc=fc)
    for seed in range(10):
        shares = random_shares(runs, 4, seed)
        layout = arrange(runs, shares, BATCH)
        assert counted(runs, layout) == shares
        assert {name: int(plane.lines[-1]) for name, plane in layout.owners.items()} == {
            layer.name: layer.num_filters for layer in graph.layers
        }


@pytest.mark.parametrize("name", MODELS)
def test_shares_weigh_what_their_filters_weigh(name):
    graph = captured(name)
    profile = count_flops(graph, BATCH)
    runs, single = build_runs(graph, profile), build(graph, profile, blocks=None)
    shares = random_shares(runs, 3, 1)
    unit = float(single.work_unit.split()[0])
    real = work_per_part(single, filters_apart(single, arrange(runs, shares, BATCH))) * unit
    assert shares_work(runs, shares).tolist() == pytest.approx(real.tolist())
