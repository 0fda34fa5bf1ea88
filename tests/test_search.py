"""All searches side by side: none of them is better, and bounds are honest."""

import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from search_cases import (
    BATCH,
    LONG_SEARCH,
    MIB,
    few_moves,  # noqa: F401 - for every test here
    graphed,
    searched,
    settings,
    tiny,
    zoo,
)
from torch import nn

from hyperplace import search
from hyperplace.errors import BalanceError, HyperplaceError, PartitionerTimeout, UsageError
from hyperplace.search import Watch, best, coarse, fine, problem
from hyperplace.steps.partition import partition
from hyperplace.steps.place import place
from hyperplace.steps.symmetric import hybrid_local, local
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part


@pytest.mark.parametrize(("k", "most_mib"), [(2, 98.0), (4, 252.5)])
def test_vgg16_is_proven(k, most_mib):
    asked = settings(k, fc="whole")
    hypergraph, found, volume = searched(zoo("vgg16"), asked, 20.0)
    assert volume <= most_mib * MIB
    assert volume * (1 - 1e-3) <= found.bound_bytes <= volume
    assert not found.is_cut_short
    metrics = place(*zoo("vgg16"), layout_of(hypergraph, found, BATCH), asked).metrics
    assert metrics.verdict == "optimal (proven)"
    assert metrics.volume_bytes == volume


@pytest.mark.parametrize(
    ("name", "k"),
    [("lenet5", 2), ("lenet5", 3), ("lenet5", 8), ("blocksnet", 3), ("resnet18", 2)],  # make sweep-never-worse has more
)
def test_never_worse_than_any_it_holds(name, k):
    """A share of what `make sweep-never-worse` holds of all models."""
    model = zoo(name)
    _, _, volume = searched(model, settings(k))
    for other in ("kahypar", "vcycle", *search.BASELINES):
        hypergraph, found, its = searched(model, settings(k, other))
        if is_feasible(work_per_part(hypergraph, found), 0.1):
            assert volume <= its, f"{other} is better"


@pytest.mark.parametrize("name", ["lenet5"])
def test_never_worse_than_the_best_of_five_seeds(monkeypatch, name):
    """A few small models stand for the zoo, where the same holds at k = 2 .. 32 with linear layers whole."""
    monkeypatch.setattr(local, "search", LONG_SEARCH)
    _, _, volume = searched(zoo(name), settings(8, fc="whole"))
    for other in ("kahypar", "mtkahypar"):
        assert volume <= min(searched(zoo(name), settings(8, other, fc="whole", seed=seed))[2] for seed in range(5))


@pytest.mark.parametrize(("k", "time_limit_s", "num_seeds"), [(3, 120.0, 5), (8, 120.0, 5), (8, 1e-9, 0)])
def test_asks_with_five_seeds_while_there_is_time(monkeypatch, k, time_limit_s, num_seeds):
    asked = {"kahypar": [], "mtkahypar": [], "local": []}

    def noted(*arguments, partitioner, seed, **more):
        asked.setdefault(partitioner, []).append(seed)
        return partition(*arguments, partitioner=partitioner, seed=seed, **more)

    def noted_local(*arguments, seed, stop, search=local.search):
        asked["local"].append(seed)
        return search(*arguments, seed=seed, stop=stop)

    monkeypatch.setattr(problem, "partition", noted)
    monkeypatch.setattr(local, "search", noted_local)
    monkeypatch.setattr(best.Best, "is_proven", lambda self: False)
    monkeypatch.setattr(coarse, "MOST_EXACT_COLUMNS", 0)
    monkeypatch.setattr(coarse, "MOST_COLUMNS_OF_MANY_PARTS", 0)
    _, found, volume = searched(zoo("lenet5"), settings(k, seed=3), time_limit_s)
    seeds = list(range(3, 3 + num_seeds))
    assert sorted(asked["kahypar"]) == sorted(asked["mtkahypar"]) == seeds
    assert asked["local"] == (seeds if k > coarse.FEW_PARTS else [3])
    assert found.is_cut_short == (num_seeds == 0)
    hypergraph = problem.Problem(*zoo("lenet5"), settings(k)).hypergraph()
    for seed in seeds:
        assert volume <= volume_bytes(hypergraph, partition(hypergraph, k, 0.1, seed=seed))


@pytest.mark.parametrize("name", ["lenet5", "blocksnet"])
@pytest.mark.parametrize("partitioner", ["auto", "local", "exact"])
def test_same_seed_same_volume(name, partitioner):
    one, two = (searched(zoo(name), settings(2, partitioner, seed=3))[2] for _ in range(2))
    assert one == two


@pytest.mark.parametrize(("k", "finder"), [(2, "kahypar"), (3, "exact")])
def test_the_exact_program_is_named_only_where_it_found_better_than_its_start(k, finder):
    """KaHyPar finds the best placement of LeNet-5 on two parts but not on three."""
    _, _, start = searched(zoo("lenet5"), settings(k, "kahypar", imbalance=0.9))
    for partitioner in ("exact", "auto"):
        _, found, volume = searched(zoo("lenet5"), settings(k, partitioner, imbalance=0.9))
        assert found.found_by == finder
        assert volume < start if finder == "exact" else volume == start


@pytest.mark.parametrize("partitioner", search.SYMMETRIC)
@pytest.mark.parametrize("grain", ["coarse", "fine"])
def test_one_part_moves_nothing(partitioner, grain):
    hypergraph, found, volume = searched(tiny(), settings(1, partitioner, grain=grain))
    assert volume == 0
    assert set(found.part_of.tolist()) == {0}
    assert len(found.part_of) == hypergraph.num_vertices


@pytest.mark.parametrize("partitioner", ["auto", "exact"])
def test_rounding_to_whole_filters_loses_nothing(partitioner):
    """The fractions of LeNet-5's best placement on four parts are no whole filters."""
    _, found, volume = searched(zoo("lenet5"), settings(4, partitioner, imbalance=0.3), 60.0)
    assert found.bound_bytes >= volume * (1 - 1e-3)
    assert not found.is_cut_short


@pytest.mark.parametrize("imbalance", [1e30, 1e308])
@pytest.mark.parametrize("partitioner", [*search.SYMMETRIC, "kahypar"])
def test_everything_fits_on_one_part_where_balance_does_not_matter(partitioner, imbalance):
    _, found, volume = searched(tiny(), settings(3, partitioner, imbalance))
    if partitioner in ("auto", "exact"):
        assert volume == found.bound_bytes == 0


@pytest.mark.parametrize("partitioner", search.SYMMETRIC)
def test_a_perfect_balance_is_found_where_there_is_one(partitioner):
    searched(tiny(), settings(2, partitioner, imbalance=0.0))


def test_a_partitioner_out_of_time_cuts_the_search_short(monkeypatch):
    def late(*arguments, partitioner, **more):
        if partitioner == "mtkahypar":
            raise PartitionerTimeout("late")
        return partition(*arguments, partitioner=partitioner, **more)

    monkeypatch.setattr(problem, "partition", late)
    monkeypatch.setattr(best.Best, "raise_bound", lambda self, bound_bytes: None)
    monkeypatch.setattr(coarse, "MOST_COLUMNS_OF_MANY_PARTS", 0)
    _, found, _ = searched(tiny(), settings(5), 0.0)
    assert found.is_cut_short


@pytest.mark.parametrize("grain", ["coarse", "fine"])
def test_more_parts_than_a_grid_has_vertices(grain):
    """One layer of many filters: a fine grid of a few blocks is too coarse, a coarse placement is not."""
    with torch.device("meta"):
        model = graphed(nn.Conv2d(1, 64, 3), torch.empty(2, 1, 8, 8))
    searched(model, settings(20, grain=grain, imbalance=0.5))


def test_more_parts_than_filters_leave_the_rows(monkeypatch):
    few = partial(hybrid_local.search_modes, num_moves=1000, num_restarts=2)
    monkeypatch.setattr(hybrid_local, "search_modes", few)
    with torch.device("meta"):
        model = graphed(nn.Conv2d(1, 8, 3), torch.empty(2, 1, 8, 8))
    grains = search.search_grains(*model, settings(16, imbalance=0.5), Watch(2.0))
    assert "more than the" in grains["coarse"]
    assert "begins with a coarse placement" in grains["fine"]
    assert grains["hybrid"].is_feasible


def test_kernels_heavier_than_their_filters_leave_the_other_grains(monkeypatch):
    """Measured kernels need not add up to their filter: a balanced coarse placement may be too heavy as a fine one."""
    few = partial(hybrid_local.search_modes, num_moves=1000, num_restarts=2)
    monkeypatch.setattr(hybrid_local, "search_modes", few)
    monkeypatch.setattr(fine, "FINE_BLOCKS", ())
    graph, profile = tiny()
    uneven = [replace(cost, kernel=cost.kernel * 10**n) for n, cost in enumerate(profile.layers)]
    heavy = replace(profile, layers=tuple(uneven))
    grains = search.search_grains(graph, heavy, settings(2, imbalance=0.1), Watch(2.0))
    assert "no fine placement" in grains["fine"]
    assert grains["coarse"].is_feasible
    assert grains["hybrid"].is_feasible


@pytest.mark.parametrize("partitioner", search.SYMMETRIC)
def test_says_which_imbalance_can_be_met(partitioner):
    """One layer that is never split, far heavier than the average part."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 7))
        model = graphed(module, torch.empty(2, 3, 4, 4))
    with pytest.raises(BalanceError, match=r"imbalance 0\.1 cannot be met at k=3: layer 2 alone") as refused:
        searched(model, settings(3, partitioner, fc="whole"))
    needed = float(re.search(r"--imbalance to at least ([\d.]+)", str(refused.value)).group(1))
    searched(model, settings(3, partitioner, imbalance=needed, fc="whole"))
    with pytest.raises(BalanceError):
        searched(model, settings(3, partitioner, imbalance=needed - 0.002, fc="whole"))


@pytest.mark.parametrize("partitioner", search.SYMMETRIC)
def test_says_so_when_layers_cannot_be_packed(partitioner):
    """Three equal layers that are never split, on two parts: each fits alone, yet two of them must share a part."""
    with torch.device("meta"):
        module = nn.Sequential(nn.Flatten(), *(nn.Linear(48, 48) for _ in range(3)))
        model = graphed(module, torch.empty(2, 3, 4, 4))
    with pytest.raises(BalanceError, match=r"imbalance 0\.1") as refused:
        searched(model, settings(2, partitioner, fc="whole"))
    assert re.search(r"0\.33[34]", str(refused.value)), f"the smallest that can be met is 0.334: {refused.value}"
    searched(model, settings(2, partitioner, imbalance=0.334, fc="whole"))


def test_an_unknown_partitioner_is_refused():
    with pytest.raises(UsageError, match="magic"):
        search.search(*tiny(), settings(2, "magic"))


@pytest.mark.parametrize("partitioner", search.SYMMETRIC)
def test_more_parts_than_filters_are_refused(partitioner):
    with pytest.raises(HyperplaceError, match=r"k=24"):
        search.search(*tiny(), settings(24, partitioner))


@pytest.mark.parametrize("k", [2, 3])
def test_fine_is_never_worse_than_coarse(k):
    assert searched(zoo("lenet5"), settings(k, grain="fine"))[2] <= searched(zoo("lenet5"), settings(k))[2]


def test_the_bound_of_a_gated_model_is_no_more_than_a_placement():
    """A linear layer kept whole whose outputs are read channel by channel: nobody may undercut the bound."""

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.g, self.c = nn.Conv2d(3, 8, 1), nn.Linear(48, 8), nn.Conv2d(8, 8, 1)

        def forward(self, x):
            return self.c(self.a(x) * self.g(x.flatten(1))[:, :, None, None])

    with torch.device("meta"):
        model = graphed(Gated(), torch.empty(2, 3, 4, 4))
    bounds, volumes = [], []
    for partitioner in (*search.SYMMETRIC, "kahypar"):
        _, found, volume = searched(model, settings(3, partitioner, imbalance=0.3, fc="whole"))
        bounds.append(found.bound_bytes or 0)
        volumes.append(volume)
    assert max(bounds) <= min(volumes)
