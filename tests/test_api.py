"""The whole chain from Python, and what it must reach on VGG16."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import hyperplace
from hyperplace import api
from hyperplace.errors import BalanceError, FileError, HyperplaceError, UsageError
from hyperplace.models import ZOO, load_model
from hyperplace.search import fine
from hyperplace.steps.partition import polish
from hyperplace.steps.symmetric import hybrid_local
from hyperplace.values.plan import Settings

MIB = 2**20


@pytest.fixture(scope="module")
def vgg16():
    loaded = load_model("vgg16")
    return loaded.module, loaded.sample


@pytest.mark.parametrize(("k", "low", "high"), [(2, 98.0, 98.0), (4, 252.3, 356.0)])
def test_vgg16_volume(vgg16, k, low, high) -> None:
    plan = hyperplace.place(*vgg16, k=k, imbalance=0.1, fc="whole", partitioner="kahypar", batch=32)
    assert low <= plan.metrics.volume_bytes / MIB <= high
    assert plan.metrics.feasible
    assert not [transfer for transfer in plan.transfers if transfer.layer == "input"], "the input stays where it is"


@pytest.mark.parametrize("k", [3, 7, 24, 61, 101])
def test_vgg16_is_feasible_at_any_k(vgg16, k) -> None:
    assert hyperplace.place(*vgg16, k=k, fc="whole", partitioner="kahypar").metrics.feasible


@pytest.mark.usefixtures("few_moves")
def test_a_custom_cnn_in_one_call(tmp_path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten())
    plan = hyperplace.place(model, torch.zeros(2, 3, 8, 8), k=2, batch=8, time_limit_s=2)
    assert plan.metrics.feasible
    hyperplace.save_plan(plan, tmp_path / "plan.json")
    assert hyperplace.load_plan(tmp_path / "plan.json") == plan
    assert model.training


def test_the_steps_one_by_one_give_the_same_as_the_one_call() -> None:
    loaded = load_model("lenet5")
    graph = hyperplace.capture(loaded.module, loaded.sample)
    profile = hyperplace.profile(graph, costs="flops", batch=32)
    hypergraph = hyperplace.build(graph, profile, grain="fine")
    partition = hyperplace.partition(hypergraph, 3, 0.1)
    plan = hyperplace.place(loaded.module, loaded.sample, k=3, grain="fine", partitioner="kahypar", batch=32)
    assert plan.metrics.volume_bytes == sum(
        (len(set(partition.part_of[hypergraph.net(n)].tolist())) - 1) * int(hypergraph.costs[n])
        for n in range(hypergraph.num_nets)
    )


def test_values_print_as_one_useful_line() -> None:
    loaded = load_model("lenet5")
    graph = hyperplace.capture(loaded.module, loaded.sample)
    profile = hyperplace.profile(graph, costs="flops")
    hypergraph = hyperplace.build(graph, profile)
    partition = hyperplace.partition(hypergraph, 2, 0.1)
    for value in (
        graph,
        profile,
        hypergraph,
        partition,
        hyperplace.place(loaded.module, loaded.sample, k=2, grain="coarse"),
    ):
        text = repr(value)
        assert "\n" not in text
        assert 10 < len(text) < 160
        assert value == value


def test_k_1_moves_nothing() -> None:
    loaded = load_model("blocksnet")
    plan = hyperplace.place(loaded.module, loaded.sample, k=1)
    assert (plan.metrics.volume_bytes, plan.messages) == (0, ())


def test_compare_holds_every_method_and_data_parallelism() -> None:
    loaded = load_model("lenet5")
    options = {"imbalance": [0.1, 0.3], "blocks": 8, "time_limit_s": 2.0}
    comparison = hyperplace.compare(loaded.module, loaded.sample, k=[2], **options)
    assert [row.method for row in comparison.rows].count("coarse") == 2
    assert {row.data_parallel_bytes for row in comparison.rows} == {2 * 61_706 * 4}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"k": 0}, UsageError, "k=0"),
        ({"imbalance": float("nan")}, UsageError, "imbalance nan"),
        ({"grain": "sand"}, UsageError, "'sand'"),
        ({"k": 64, "fc": "whole", "grain": "coarse"}, BalanceError, "cannot be met at k=64"),
        ({"k": 10_000}, UsageError, "more than the"),
        ({"k": 10_000, "partitioner": "kahypar"}, UsageError, "more than the"),
    ],
)
def test_what_cannot_work_is_said(options, error, words) -> None:
    loaded = load_model("lenet5")
    with pytest.raises(error, match=words):
        hyperplace.place(loaded.module, loaded.sample, **options)


def test_a_plan_that_is_not_there(tmp_path) -> None:
    with pytest.raises(FileError, match="nowhere"):
        hyperplace.load_plan(tmp_path / "nowhere.json")


@pytest.mark.parametrize("name", ZOO)
def test_every_model_of_the_zoo_is_placed_in_both_grains(name) -> None:
    loaded = load_model(name)
    for grain in ("coarse", "fine"):
        plan = hyperplace.place(loaded.module, loaded.sample, k=3, grain=grain, blocks=6, partitioner="incremental")
        assert sum(message.num_bytes for message in plan.messages) == plan.metrics.volume_bytes
        assert not [layer.name for layer in plan.layers if layer.reason], "every layer of the zoo has a channel rule"


@pytest.fixture
def few_moves(monkeypatch):
    monkeypatch.setattr(hybrid_local, "ALL_MOVES", 100_000)
    monkeypatch.setattr(fine, "FEW_MOVES", 10_000)
    monkeypatch.setattr(polish, "MOST_MOVES", 10_000)


def settings(**changed) -> Settings:
    return replace(
        Settings(
            model="lenet5", k=2, imbalance=0.1, grain="auto", partitioner="auto", costs="flops", batch=8, blocks=8
        ),
        **changed,
    )


@pytest.mark.usefixtures("few_moves")
def test_all_grains_are_tried_and_the_least_volume_of_training_wins() -> None:
    loaded = load_model("lenet5")
    placement = api.run(loaded.module, loaded.sample, settings(), watch=api.Watch(4))
    plans = [placement.plan, *(other.plan for other in placement.others)]
    volumes = [plan.metrics.training_volume_bytes for plan in plans]
    assert volumes == sorted(volumes)
    assert {plan.settings.grain for plan in plans} == {"coarse", "fine", "hybrid"}
    assert all(plan.metrics.feasible for plan in plans)
    assert [row.method for row in api.grain_rows(placement)] == [plan.settings.grain for plan in plans[1:]]
    again = hyperplace.place(loaded.module, loaded.sample, k=2, batch=8, blocks=8, time_limit_s=4)
    assert (again.metrics, again.layers) == (placement.plan.metrics, placement.plan.layers), "same seed, same plan"


@pytest.mark.usefixtures("few_moves")
def test_a_grain_without_a_placement_is_named_beside_the_others() -> None:
    """Two equal layers that are never split, on three parts; their rows may be."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 48, bias=False), nn.Linear(48, 48, bias=False))
    asked = settings(model="pair", k=3, batch=12, fc="whole")
    placement = api.run(model, torch.zeros(2, 3, 4, 4), asked, watch=api.Watch(2))
    assert placement.plan.settings.grain == "hybrid"
    assert "cannot be met at k=3" in placement.refused["coarse"]
    assert {row.method: row.has_figures for row in api.grain_rows(placement)} == {"coarse": False, "fine": False}
    with pytest.raises(BalanceError, match="cannot be met at k=3"):
        api.run(model, torch.zeros(2, 3, 4, 4), replace(asked, batch=1, imbalance=0.0), watch=api.Watch(2))


@pytest.mark.parametrize(("partitioner", "grain"), [("kahypar", "coarse"), ("dataparallel", "hybrid")])
def test_a_partitioner_by_name_is_for_one_grain(partitioner, grain) -> None:
    loaded = load_model("lenet5")
    plan = hyperplace.place(loaded.module, loaded.sample, k=2, batch=8, blocks=8, partitioner=partitioner)
    assert plan.settings.grain == grain
    assert api.settled(settings(partitioner=partitioner)) == settings(partitioner=partitioner, grain=grain)
    assert api.settled(settings(partitioner=partitioner, grain="fine")).grain == "fine"


def test_a_plan_is_of_one_grain() -> None:
    loaded = load_model("lenet5")
    plan = hyperplace.place(loaded.module, loaded.sample, k=2, partitioner="incremental")
    with pytest.raises(HyperplaceError, match="a plan is of one grain"):
        replace(plan, settings=replace(plan.settings, grain="auto"))


def test_data_parallelism_is_a_plan_that_compiles_and_trains_like_any_other() -> None:
    torch.manual_seed(0)
    model = load_model("lenet5", device="cpu").module
    x, y = torch.randn(8, 1, 32, 32), torch.arange(8)
    plan = hyperplace.place(model, x, k=2, batch=8, partitioner="dataparallel")
    with hyperplace.compile(
        model, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=nn.functional.cross_entropy, in_flight=1
    ) as trainer:
        trainer.step(x, y)
        found, moved = trainer.state_dict(), trainer.moved_bytes()
    assert moved == plan.moved_bytes
    assert sum(moved.values()) == plan.metrics.data_parallel_bytes
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    assert all(torch.allclose(found[name], tensor, atol=1e-6) for name, tensor in model.state_dict().items())
