"""All searches side by side: none of them is better, bounds are honest; interrupts, faults and kills are survived."""

import _thread
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hyperplace
from hyperplace import search
from hyperplace.errors import BalanceError, HyperplaceError, PartitionerTimeout, UsageError
from hyperplace.models import load_model
from hyperplace.search import Watch, best, coarse, fine, problem
from hyperplace.steps.capture import capture
from hyperplace.steps.partition import partition
from hyperplace.steps.place import place
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric import hybrid_local, local
from hyperplace.values.capacities import Capacities
from hyperplace.values.layout import layout_of, partition_of
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part
from hyperplace.values.plan import Settings

MIB = 2**20
BATCH = 32
LONG_SEARCH = local.search
CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")


@pytest.fixture(autouse=True)
def few_moves(monkeypatch):
    """What holds of all together holds with a short local search; how good a long one is stands in results/."""
    monkeypatch.setattr(local, "search", partial(local.search, num_moves=30_000, num_restarts=2))


@cache
def zoo(name):
    loaded = load_model(name, [(3, 64, 64)]) if name == "resnet18" else load_model(name)
    return graphed(loaded.module, loaded.sample)


def graphed(module, sample):
    graph = capture(module, sample)
    return graph, count_flops(graph, BATCH)


@cache
def tiny():
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
        return graphed(module, torch.empty(2, 3, 16, 16))


def settings(k, partitioner="auto", imbalance=0.1, grain="coarse", fc="neurons", **more):
    return Settings(
        model="model",
        k=k,
        imbalance=imbalance,
        grain=grain,
        partitioner=partitioner,
        costs="flops",
        batch=BATCH,
        fc=fc,
        **more,
    )


def searched(model, asked, time_limit_s=30.0, on_progress=lambda text: None):
    """Search and check what every result must keep."""
    layout = search.search(*model, asked, Watch(time_limit_s, on_progress=on_progress))
    hypergraph = search.hypergraph_of(*model, layout, asked)
    found = partition_of(layout, hypergraph)
    volume = volume_bytes(hypergraph, found)
    if asked.partitioner in search.SYMMETRIC:
        assert is_feasible(work_per_part(hypergraph, found), asked.imbalance)
    assert layout.bound_bytes is None or layout.bound_bytes <= volume
    assert layout.num_parts == asked.k
    return hypergraph, found, volume


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


@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("name", ["lenet5", "blocksnet", "resnet18"])
def test_never_worse_than_any_it_holds(name, k):
    model = zoo(name)
    _, _, volume = searched(model, settings(k))
    for other in ("kahypar", "vcycle", *search.BASELINES):
        hypergraph, found, its = searched(model, settings(k, other))
        if is_feasible(work_per_part(hypergraph, found), 0.1):
            assert volume <= its, f"{other} is better"


@pytest.mark.parametrize("name", ["lenet5", "blocksnet"])
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


@pytest.mark.parametrize(("name", "k"), [("lenet5", 3), ("blocksnet", 4), ("resnet18", 8)])
def test_fine_is_never_worse_than_coarse(name, k):
    assert searched(zoo(name), settings(k, grain="fine"))[2] <= searched(zoo(name), settings(k))[2]


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


# Faults, interrupts, kills.


@pytest.mark.timeout(60)
@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize(
    ("module", "where"), [(best, "arrange"), (best, "counted"), (problem, "partition"), (coarse, "judged_partition")]
)
def test_a_fault_in_a_lane_reaches_the_caller(monkeypatch, module, where, k):
    def broken(*_arguments, **_options):
        raise RuntimeError(f"{where} is broken")

    monkeypatch.setattr(module, where, broken)
    with pytest.raises(RuntimeError, match=f"{where} is broken"):
        search.search(*tiny(), settings(k, imbalance=0.5), Watch(5))


@pytest.mark.timeout(60)
def test_a_fault_in_the_progress_reaches_the_caller():
    def broken(_text):
        raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        search.search(*tiny(), settings(2, imbalance=0.5), Watch(5, on_progress=broken))


@pytest.mark.timeout(60)
def test_an_interrupt_between_the_fine_grids_returns_the_best_so_far(monkeypatch):
    monkeypatch.setattr(fine, "FINE_BLOCKS", (8,) * 50)
    pressed = threading.Event()

    def interrupt(text):
        if "(" not in text and not pressed.is_set():  # the coarse searches name who found it
            pressed.set()
            _thread.interrupt_main()

    try:
        _, found, _ = searched(zoo("lenet5"), settings(2, grain="fine"), on_progress=interrupt)
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("the coarse placement was lost")
    assert found.is_cut_short


@pytest.mark.timeout(60)
@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_an_interrupt_among_the_grains_returns_the_best_of_each_so_far(monkeypatch, grain):
    """Pressed when a grain first has something to say."""
    pressed = threading.Event()
    monkeypatch.setattr(fine, "FINE_BLOCKS", (8,) * 50)
    monkeypatch.setattr(hybrid_local, "ALL_MOVES", 10**12)

    def interrupt(text):
        if text.startswith(grain) and not pressed.is_set():
            pressed.set()
            _thread.interrupt_main()

    try:
        found = search.search_grains(*zoo("lenet5"), settings(3, grain="auto"), Watch(on_progress=interrupt))
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("what was found is lost")
    assert found["coarse"].layout.is_cut_short == (grain == "coarse")
    for other in ("fine", "hybrid"):
        assert "interrupted" in found[other] if grain == "coarse" else found[other].layout.is_cut_short


def start(folder, *options):
    command = (*CLI, "partition", "resnet50", "--k", "8", "--costs", "flops", "--time-limit", "120", *options)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "TTY_COMPATIBLE": "1", "COLUMNS": "150"}
    with (folder / "progress").open("wb") as shown:
        return subprocess.Popen(
            [*command, "--out", str(folder / "out")],
            stdout=subprocess.PIPE,
            stderr=shown,
            env={**environment, "FORCE_COLOR": "1"},
        )


def wait_for_a_best(process, folder):
    """Wait until the progress line shows a placement; then the search is under way."""
    deadline = time.monotonic() + 60
    while b"best " not in (folder / "progress").read_bytes():
        assert process.poll() is None, (folder / "progress").read_text()
        assert time.monotonic() < deadline, (folder / "progress").read_text()
        time.sleep(0.2)
    time.sleep(1)


@pytest.mark.timeout(120)
def test_an_interrupt_writes_the_best_so_far(tmp_path):
    process = start(tmp_path, "--json")
    try:
        wait_for_a_best(process, tmp_path)
        signalled = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        seconds = time.monotonic() - signalled
    finally:
        process.kill()
    assert process.returncode == 0, (tmp_path / "progress").read_text()[-2000:]
    summary = json.loads(out)
    assert summary["is_cut_short"]
    assert summary["feasible"]
    plan = hyperplace.load_plan(summary["plan"])
    assert plan.metrics.is_cut_short
    assert plan.metrics.volume_bytes == summary["volume_bytes"] > 0
    assert seconds < 20, "it ends soon, also on a busy machine"


@pytest.mark.timeout(120)
def test_a_kill_leaves_nothing_half_written(tmp_path):
    process = start(tmp_path)
    try:
        wait_for_a_best(process, tmp_path)
    finally:
        process.kill()
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert [path for path in Path(tmp_path / "out").rglob("*") if path.is_file()] == []


# Capacities and objectives of one's own.


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


def is_balanced(layout, asked):
    hypergraph = search.hypergraph_of(*tiny(), layout, asked)
    return is_feasible(work_per_part(hypergraph, partition_of(layout, hypergraph)), asked.imbalance)
