"""The bench measures what it says: by turns, from the same weights, and leaves the process as it was."""

import os
import threading
from dataclasses import replace

import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.bench import BenchSettings, bench
from hyperplace.errors import BalanceError, UsageError
from hyperplace.values.methods import DATA_PARALLEL, PER_SHARD

SETTINGS = BenchSettings("net", k=2, batch=4, repeats=2, steps=2, imbalance=0.3, costs="flops", time_limit_s=1)
SAMPLE = (torch.zeros(2, 1, 8, 8),)
PLANS = ("layer-wise", "incremental", "coarse auto", "fine auto", "hybrid auto", "data parallelism")
METHODS = [
    *[("plain loop, 1 thread", "plain"), ("plain loop, 2 threads", "plain"), ("compiled, k=1", "async")],
    *[(name, way) for name in PLANS for way in ("sync", "async")],
]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )


def test_all_methods_by_turns_and_every_byte_as_planned() -> None:
    cores, threads, model = os.sched_getaffinity(0), torch.get_num_threads(), net()
    said: list[str] = []
    measured = bench(model, SAMPLE, SETTINGS, on_progress=said.append)
    assert [(row.method, row.schedule) for row in measured.bench.rows] == METHODS
    turns = [line.split(": ")[1] for line in said if line.startswith("round")]
    assert turns == [f"{method} {schedule}" for method, schedule in METHODS] * SETTINGS.repeats
    for row in measured.bench.rows:
        assert len(row.images_per_s) == 2
        assert row.moved_bytes == row.predicted_bytes, "None for a plain loop, zero for one part"
    assert all(0 <= row.bubble <= 1 for row in measured.bench.rows[2:])  # type: ignore[operator]
    assert measured.timeline is not None
    assert measured.timeline.num_parts == 2
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (cores, threads)
    assert not [thread for thread in threading.enumerate() if "hyperplace part" in thread.name]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), net().parameters(), strict=True))


def test_a_plan_that_cannot_be_made_is_a_row_that_says_so(monkeypatch) -> None:
    place = api.place_graph

    def no_auto(graph, costs, settings, **words):
        if settings.partitioner == "auto":
            raise BalanceError("imbalance 0.02 cannot be met")
        return place(graph, costs, settings, **words)

    monkeypatch.setattr(api, "place_graph", no_auto)
    measured = bench(net(), SAMPLE, SETTINGS)
    refused = [row.method for row in measured.bench.rows if row.note == "imbalance 0.02 cannot be met"]
    assert refused == ["coarse auto", "coarse auto", "fine auto", "fine auto", "hybrid auto", "hybrid auto"]
    assert measured.timeline is not None


def test_where_there_are_norms_data_parallelism_is_also_what_torch_makes_of_it() -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    measured = bench(model, SAMPLE, replace(SETTINGS, repeats=1, only=("data",)))
    exact, apart = (
        [row for row in measured.bench.rows if row.method == name] for name in (DATA_PARALLEL[0], PER_SHARD)
    )
    assert [row.schedule for row in apart] == ["sync", "async"]
    for whole, own in zip(exact, apart, strict=True):
        assert whole.moved_bytes == whole.predicted_bytes
        assert own.moved_bytes == own.predicted_bytes
        assert own.moved_bytes == whole.moved_bytes - 4 * 8 * 2 * 4, "two numbers a filter, there and back, twice"


@pytest.mark.parametrize("words", [{"repeats": 0}, {"steps": 0}, {"in_flight": 0}, {"k": 0}, {"batch": 0}])
def test_bad_settings(words) -> None:
    with pytest.raises(UsageError):
        BenchSettings("net", **words)


def test_a_model_that_reads_no_image() -> None:
    with pytest.raises(UsageError, match="does not read single images"):
        bench(nn.Linear(4, 10), (torch.zeros(2, 4),), SETTINGS)
