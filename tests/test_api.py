"""The whole chain from Python, and what it must reach on VGG16."""

import pytest
import torch
from torch import nn

import hyperplace
from hyperplace import api
from hyperplace.errors import BalanceError, FileError, UsageError
from hyperplace.models import ZOO, load_model
from hyperplace.values.plan import Settings

MIB = 2**20


@pytest.fixture(scope="module")
def vgg16():
    loaded = load_model("vgg16")
    return loaded.module, loaded.sample


@pytest.mark.parametrize(("k", "low", "high"), [(2, 98.0, 98.0), (4, 252.3, 356.0)])
def test_vgg16_volume(vgg16, k, low, high) -> None:
    plan = hyperplace.place(*vgg16, k=k, imbalance=0.1, fc="whole", partitioner="kahypar")
    assert low <= plan.metrics.volume_bytes / MIB <= high
    assert plan.metrics.feasible
    assert not [transfer for transfer in plan.transfers if transfer.layer == "input"], "the input stays where it is"


@pytest.mark.parametrize("k", [3, 7, 24, 61, 101])
def test_vgg16_is_feasible_at_any_k(vgg16, k) -> None:
    assert hyperplace.place(*vgg16, k=k, fc="whole", partitioner="kahypar").metrics.feasible


def test_a_custom_cnn_in_one_call(tmp_path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten())
    plan = hyperplace.place(model, torch.zeros(2, 3, 8, 8), k=2)
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
    plan = hyperplace.place(loaded.module, loaded.sample, k=3, grain="fine", partitioner="kahypar")
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
    for value in (graph, profile, hypergraph, partition, hyperplace.place(loaded.module, loaded.sample, k=2)):
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
        ({"k": 64, "fc": "whole"}, BalanceError, "cannot be met at k=64"),
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


def test_grain_auto_takes_the_least_volume_of_training() -> None:
    loaded = load_model("lenet5")
    settings = Settings("lenet5", 2, 0.1, "coarse", "auto", "flops", 8, 8)
    placements = api.run_grains(loaded.module, loaded.sample, settings, time_limit_s=2)
    volumes = [placement.plan.metrics.training_volume_bytes for placement in placements]
    assert volumes == sorted(volumes)
    assert {placement.plan.settings.grain for placement in placements} == {"coarse", "fine", "hybrid"}
    assert [row.method for row in api.grain_rows(placements)] == [p.plan.settings.grain for p in placements[1:]]
    options = {"k": 2, "batch": 8, "blocks": 8, "time_limit_s": 2}
    best = hyperplace.place(loaded.module, loaded.sample, grain="auto", **options)
    assert best.metrics.training_volume_bytes == volumes[0]


def test_a_hybrid_plan_is_not_generated_yet() -> None:
    loaded = load_model("lenet5")
    plan = hyperplace.place(loaded.module, loaded.sample, k=2, batch=8, grain="hybrid", partitioner="dataparallel")
    with pytest.raises(UsageError, match="hybrid plans"):
        hyperplace.generate(loaded.module, plan)
