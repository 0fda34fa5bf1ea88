"""The public function: what it refuses, what it never asks a partitioner, what it promises of balance."""

import math
from typing import Any

import numpy as np
import pytest
from partition_cases import from_nets, random_hypergraph, vgg16

from hyperplace.errors import BalanceError, UsageError
from hyperplace.steps.partition import PARTITIONERS, general, partition
from hyperplace.values.hypergraph import Hypergraph, Labels
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part

pytestmark = pytest.mark.timeout(60)
GENERAL = ["kahypar", "mtkahypar", "vcycle"]


@pytest.fixture
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a partitioner was asked")

    monkeypatch.setattr(general, "ask", refuse)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((0, 0.1), {}, "k=0 is not a whole number"),
        ((-1, 0.1), {}, "k=-1 is not"),
        ((2.0, 0.1), {}, "k=2.0 is not"),
        ((True, 0.1), {}, "k=True is not"),
        ((61, 0.1), {}, "k=61 is more than the 60 vertices; lower --k or raise --blocks"),
        ((2, -0.1), {}, "imbalance -0.1 is not"),
        ((2, math.nan), {}, "imbalance nan is not"),
        ((2, math.inf), {}, "imbalance inf is not"),
        ((2, 0.1), {"seed": -1}, "seed -1 is not"),
        ((2, 0.1), {"time_limit_s": 0}, "time limit 0 s is not"),
        (
            (2, 0.1),
            {"partitioner": "metis"},
            "unknown partitioner 'metis'; choose one of kahypar, mtkahypar, vcycle, single",
        ),
        ((0, -1), {"seed": -5}, "k=0 .*; imbalance -1 .*; seed -5"),
    ],
)
@pytest.mark.usefixtures("no_process")
def test_what_can_never_work_is_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        partition(random_hypergraph(0), *arguments, **options)


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.usefixtures("no_process")
def test_one_part_moves_nothing(name: str) -> None:
    found = partition(random_hypergraph(0), 1, 0.0, partitioner=name)
    assert not found.part_of.any()
    assert volume_bytes(random_hypergraph(0), found) == 0
    assert found.found_by == name


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.usefixtures("no_process")
def test_with_nothing_to_cut_the_vertices_are_packed(name: str) -> None:
    hypergraph = from_nets([[0], [1, 1], [2, 3]], [3, 3, 2, 2, 2], [5, 5, 0])
    found = partition(hypergraph, 2, 0.0, partitioner=name)
    assert work_per_part(hypergraph, found).tolist() == [6, 6]


def labelled(filters: int, channel: int) -> Hypergraph:
    one = np.ones(3, np.int64)
    labels = Labels(
        layers=("features.2",),
        layer_of=0 * one,
        filter_start=0 * one,
        filter_stop=filters * one,
        channel_start=channel * one,
        channel_stop=(channel + 3) * one,
        is_input=0 * one,
        net_layer=np.zeros(1),
        net_is_fold=np.zeros(1),
    )
    return from_nets([[0, 1, 2]], [6, 3, 3], [1], labels)


@pytest.mark.parametrize(
    ("hypergraph", "message"),
    [
        (labelled(1, -1), r"filter block features.2\[0:1\] alone weighs 1.5x the average part; raise --imbalance to "),
        (labelled(4, -1), r"filter block features.2\[0:4\] .* at least 0.5, raise --blocks .* or lower --k$"),
        (labelled(1, 0), r"kernel features.2\[0:1\],\[0:3\] alone .* at least 0.5 or lower --k$"),
        (from_nets([[0, 1]], [6, 3, 3], [1]), r"^imbalance 0.01 cannot be met at k=3: vertex 0 alone weighs 1.5x"),
    ],
)
@pytest.mark.usefixtures("no_process")
def test_a_vertex_too_heavy_for_any_part_is_named(hypergraph: Hypergraph, message: str) -> None:
    with pytest.raises(BalanceError, match=message):
        partition(hypergraph, 3, 0.01)
    partition(hypergraph, 3, 0.01, partitioner="single")


def test_an_imbalance_nobody_can_meet_says_the_best_found() -> None:
    hypergraph = from_nets([[0, 1, 2]], [2, 2, 2], [1])
    with pytest.raises(BalanceError, match=r"imbalance 0.1 was not met at k=2: .* has 0.333; .* at least 0.334"):
        partition(hypergraph, 2, 0.1)


@pytest.mark.parametrize("bad", ["all on one part", "unbalanced"])
def test_an_unbalanced_answer_is_repaired(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hypergraph = vgg16()
    answer = np.zeros((1, 838), np.int64)
    if bad == "unbalanced":
        answer[0, 600:] = 1
    monkeypatch.setattr(general, "ask", lambda *_: answer)
    for num_parts in (2, 7, 64):
        found = partition(hypergraph, num_parts, 0.1)
        assert is_feasible(work_per_part(hypergraph, found), 0.1)


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("seed", range(3))
def test_random_hypergraphs_with_zeros_and_repeated_pins(name: str, seed: int) -> None:
    hypergraph = random_hypergraph(seed)
    found = partition(hypergraph, 4, 0.1, partitioner=name, seed=seed)
    assert len(found.part_of) == 60
    assert is_feasible(work_per_part(hypergraph, found), 0.1)


@pytest.mark.parametrize("name", GENERAL)
@pytest.mark.parametrize("weights", [[0, 0, 0, 0], [1, 1, 1, 1], [2**40, 2**40, 2**40, 2**40]])
def test_extreme_weights_costs_and_imbalance(name: str, weights: list[int]) -> None:
    hypergraph = from_nets([[0, 1], [1, 2], [2, 3]], weights, [2**50, 2**50 + 1, 7])
    for imbalance in (0.0, 1000.0):
        found = partition(hypergraph, 2, imbalance, partitioner=name)
        assert is_feasible(work_per_part(hypergraph, found), imbalance)
    assert partition(hypergraph, 4, 0.5, partitioner=name).num_parts == 4
