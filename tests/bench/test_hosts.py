"""The bench over hosts: everybody's turns, every byte as planned and as the cards count, and who fails has a note."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_netns import needs_hosts, own
from tiny import tiny

from hyperplace import api
from hyperplace.bench import BenchSettings, Card, HostSettings, bench_hosts, host_contender, hosts, netns
from hyperplace.bench.contender import Planned, predicted_us
from hyperplace.bench.cores import Seat
from hyperplace.bench.jobs import GIVE, Entry, Job, Reply
from hyperplace.errors import UsageError
from hyperplace.runtime import RunSettings
from hyperplace.values.bench import TOGETHER, BenchRow, Paces
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.plan import AUTO

TINY = f"{Path(__file__).parent}/tiny.py"
PLAIN = BenchSettings("tiny", k=2, batch=4, repeats=2, steps=2, imbalance=0.3, costs="flops", time_limit_s=1)
SETTINGS = HostSettings(f"{TINY}:tiny", ((1, 8, 8),), PLAIN, Card.parse_all("1gbit", None))
TORCH = ["torch DDP", *(f"torch {name} m={number}" for name in ("GPipe", "1F1B") for number in (2, 8))]


@pytest.fixture(autouse=True)
def _few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the searches, which have tests of their own; `auto` is one that others find too."""
    monkeypatch.setattr(host_contender, "PLANS", host_contender.PLANS[:2])
    monkeypatch.setattr(host_contender, "MICRO_BATCHES", (2, 8))
    monkeypatch.setattr(host_contender, "SERVERS", ())
    monkeypatch.setattr(host_contender, "AUTO_KIND", ("auto", *host_contender.PLANS[1][1:]))


@pytest.fixture
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise netns.NoHosts("emulated hosts need root")

    monkeypatch.setattr(netns, "_check_rights", refuse)


class Growing:
    """Workers whose memory is all there after some jobs."""

    def __init__(self, faults: list[int]) -> None:
        self.faults, self.given = faults, []

    def ask(self, job: Job, num_ranks: int) -> list[Reply]:
        if job.do != GIVE:
            return [Reply()] * num_ranks
        self.given.append(job.number)
        return [Reply(last_s=0.5), Reply(last_s=0.5, faults=self.faults.pop(0))]


@pytest.mark.parametrize(
    ("faults", "growing_s", "rounds"),
    [([10**6, 10**5, 10**4, 100], 60.0, 4), ([100], 60.0, 1), ([10**6], 0.0, 1)],
)
def test_a_turn_begins_once_memory_has_its_size(faults, growing_s, rounds, monkeypatch) -> None:
    monkeypatch.setattr(hosts, "GROWING_S", growing_s)
    settings = replace(SETTINGS, bench=replace(PLAIN, steps=6), turn_limit_s=60.0)
    workers = Growing(faults)
    row = host_contender.together_row(PLAIN, None)
    one = host_contender.HostContender(row, Entry("plan", 4, "async", in_flight=2))
    given, number = hosts._Run(workers, settings, None)._warmed_up(one)
    assert workers.given == [one.warm_up] * rounds
    assert given == rounds * one.warm_up
    assert number == 6


@needs_hosts
def test_everybody_by_turns_on_two_hosts() -> None:
    cores, said = os.sched_getaffinity(0), []
    measured = bench_hosts(SETTINGS, on_progress=said.append)
    rows = measured.bench.rows
    assert [row.method for row in rows] == [
        "plain loop, 1 thread",
        TOGETHER,
        *["layer-wise"] * 2,
        *["incremental"] * 2,
        *TORCH,
    ]
    taking_part = [row for row in rows if not row.note]
    assert [row.method for row in rows if row.note] == ["torch GPipe m=8", "torch 1F1B m=8"], "of 4 rows"
    turns = [line.split(": ")[1] for line in said if line.startswith("round")]
    assert turns[: len(turns) // 2] == turns[len(turns) // 2 :], "by turns, not one after the other"
    for row in taking_part:
        assert len(row.images_per_s) == 2
        assert row.moved_bytes == row.predicted_bytes, "None for whoever has no plan"
        assert row.idle is not None
        assert row.is_auto == (row.method == "incremental")
        assert (row.wire_bytes is None) == (row.schedule == "plain")
    parameter_bytes = sum(4 * count for count in (8 * 9 + 8, 8 * 8 * 9 + 8, 288 * 10 + 10))
    ddp = next(row for row in rows if row.method == "torch DDP")
    assert ddp.wire_bytes is not None
    assert 2 * parameter_bytes < ddp.wire_bytes < 3 * parameter_bytes, "a ring of two sends all gradients twice"
    assert measured.timeline is not None
    assert measured.timeline.num_parts == 2
    assert "2 emulated hosts, 1 Gbit/s each way, a core each" in measured.bench.network
    assert os.sched_getaffinity(0) == cores
    assert own() == []


@pytest.mark.usefixtures("_loopback")
def test_without_rights_on_loopback_and_a_plan_that_fails_has_a_note(monkeypatch) -> None:
    save, notes = api.save_plan, []

    def torn(plan, path) -> None:
        save(plan, path)
        if "layer-wise" in str(path):
            path.write_text("{")

    monkeypatch.setattr(api, "save_plan", torn)
    settings = replace(SETTINGS, spec=f"{TINY}:Branched", batches=(6,), bench=replace(PLAIN, repeats=1, steps=1))
    measured = bench_hosts(settings, on_note=notes.append)
    assert notes == [
        "emulated hosts need root; measuring plain processes on loopback instead, without --rate and --delay"
    ]
    assert "2 processes on loopback" in measured.bench.network
    assert measured.bench.batches == (6,)
    for row in measured.bench.rows:
        assert row.wire_bytes is None
        if row.method == "layer-wise":
            assert "failed: FileError" in row.note
        elif row.method.startswith(("torch GPipe", "torch 1F1B")):
            assert "no nn.Sequential" in row.note
        else:
            assert row.images_per_s


def test_a_method_that_is_slow_has_fewer_steps() -> None:
    assert hosts.num_steps(1.0, SETTINGS) == 2
    many = replace(SETTINGS, bench=replace(PLAIN, steps=8), turn_limit_s=3.5)
    assert [hosts.num_steps(seconds, many) for seconds in (0.0, 0.4, 0.5, 1.0, 5.0)] == [8, 8, 7, 3, 2]


def test_the_last_row_is_auto_only_where_nobody_else_has_its_plan() -> None:
    def planned(name: str, partitioner: str) -> Planned:
        return Planned(name, 2, api.place(tiny(), torch.zeros(4, 1, 8, 8), k=2, partitioner=partitioner, imbalance=1))

    one, two = planned("one", "layerwise"), planned("two", "incremental")
    assert two.plan
    found_by = replace(two.plan, metrics=replace(two.plan.metrics, found_by="somebody else"))
    same, other = replace(two, name=AUTO, plan=found_by), planned(AUTO, "horizontal")
    assert list(host_contender._kinds([one, two, same])) == [(one, False), (two, True)]
    assert list(host_contender._kinds([one, two, other])) == [(one, False), (two, False), (other, True)]
    refused = Planned(AUTO, 2, note="no plan")
    assert list(host_contender._kinds([Planned("one", 2, note="none"), refused]))[-1] == (refused, False)


@pytest.mark.parametrize(
    "words",
    [
        {"batches": (8, 0)},
        {"turn_limit_s": 0},
        {"turn_limit_s": float("nan")},
        {"cards": (Card(), Card(), Card())},
        {"shares": (1.0,)},
        {"shares": (1.0, 1.5)},
        {"shares": (1.0, 0.0)},
        {"bench": replace(PLAIN, k=1)},
        {"bench": replace(PLAIN, k=65)},
    ],
)
def test_bad_settings(words) -> None:
    with pytest.raises(UsageError):
        replace(SETTINGS, **words)


def test_a_batch_size_given_twice_is_measured_once() -> None:
    assert [sized.batch for sized in replace(SETTINGS, batches=(8, 16, 8)).sizes] == [8, 16]
    assert [sized.batch for sized in SETTINGS.sizes] == [PLAIN.batch]


def test_a_model_that_reads_no_image(tmp_path) -> None:
    source = tmp_path / "flat.py"
    source.write_text("from torch import nn\ndef flat():\n    return nn.Linear(4, 10)\n")
    with pytest.raises(UsageError, match="does not read single images"):
        bench_hosts(replace(SETTINGS, spec=f"{source}:flat", shapes=((4,),)))


def test_unequal_hosts_also_have_a_plan_made_for_equal_ones() -> None:
    equal = Cluster(tuple(Host(name, out_rate=1e8, in_rate=rate) for name, rate in (("a", 1e8), ("b", 1.1e8))))
    assert [name for name, _ in host_contender._clusters(equal)] == ["by time"]
    slow = replace(equal.hosts[0], name="c", out_rate=1e7, in_rate=1e7, devices=(Device(speed=0.4),))
    unequal = Cluster((*equal.hosts, slow))
    (name, same), (other, mean) = host_contender._clusters(unequal)
    assert (name, other) == ("by time", "by time, as if equal")
    assert same is unequal
    assert [host.name for host in mean.hosts] == ["a", "b", "c"]
    assert [host.devices[0].speed for host in mean.hosts] == pytest.approx([0.8] * 3)
    assert [host.out_rate for host in mean.hosts] == pytest.approx([7e7] * 3)
    assert not list(host_contender._clusters(None)), "of FLOPs nobody knows how long they take"


def test_the_pace_of_unequal_hosts_is_that_of_the_slowest() -> None:
    """All at once end with it: predictions were 2.5 times too slow where it had 40 % of a core."""
    first, together = host_contender.plain_rows(PLAIN, 1000.0, (1.0, 0.4))
    assert (first.predicted_us, together.predicted_us) == (1000.0, pytest.approx(2500.0))
    assert host_contender.plain_rows(PLAIN, None, (1.0,))[1].predicted_us is None


def test_hosts_with_unequal_shares_are_as_fast_as_they_were_probed() -> None:
    """A plan by the share alone gave the slower host so much that the other one waited for a fifth of the time."""
    devices = Device(copy_s_per_byte=1e-10), Device(speed=0.35, copy_s_per_byte=3e-10)
    probed = Cluster(tuple(Host(name, (one,)) for name, one in zip("ab", devices, strict=True)))
    assert host_contender.seated(probed, (Seat(0, 1.0), Seat(1, 0.4))).devices == devices
    halves = host_contender.seated(probed, (Seat(0, 0.5), Seat(1, 0.5))).devices
    assert [device.speed for device in halves] == [0.5, 0.5]
    unlike = host_contender.seated(probed, (Seat(0, 0.8), Seat(1, 0.4))).devices
    assert [device.speed for device in unlike] == pytest.approx([0.8, 0.28])


def test_every_host_is_paced_by_what_its_own_speed_foretells() -> None:
    row = BenchRow(TOGETHER, "plain", 2, 1, 16, (4.0,), predicted_us=4e6)  # 2 s of layers on a core, at half the speed
    found = host_contender.HostContender(row, Entry("plain", 16), each_s=[(2.2, 3.0), (2.4, 3.6), (9.0, 3.2)])
    assert hosts._with_paces(row, found, (1.0, 0.5)).paces == pytest.approx((1.2, 0.8)), "of the middle turns"
    other = replace(row, method="by time")
    assert hosts._with_paces(other, found, (1.0, 0.5)) is other


def test_a_pace_is_that_of_the_work_and_not_of_the_network() -> None:
    """A run whose loop took twice as long as its layers: what waits for a card takes no longer for it."""
    graph = api.capture(tiny(), (torch.randn(4, 1, 8, 8),))
    costs = api.profile(graph, costs="measured", batch=4)
    plan = api.place_graph(graph, costs, replace(PLAIN, costs="measured").plan_settings("hybrid", "dataparallel", 2))
    program = api.runnable(graph, plan, costs).program
    slow, fast = (Cluster(tuple(Host(name, out_rate=rate, in_rate=rate) for name in "ab")) for rate in (1e4, 1e15))
    for cluster, times in ((slow, 1.0), (fast, 2.0)):
        flow = RunSettings(cluster=cluster)
        once, twice = (predicted_us(program, flow, Paces(pace, (pace,))) for pace in (1.0, 2.0))
        assert twice / once == pytest.approx(times, rel=0.05)


def test_parts_that_take_turns_are_as_fast_as_one_alone() -> None:
    """Of ResNet-50 in sync one part works at a time: at the pace of two at once it looked 8 % slower than it was."""
    graph = api.capture(tiny(), (torch.randn(4, 1, 8, 8),))
    costs = api.profile(graph, costs="measured", batch=4)
    plans = {
        partitioner: api.place_graph(
            graph, costs, replace(PLAIN, costs="measured").plan_settings("hybrid", partitioner, 2)
        )
        for partitioner in ("layerwise", "dataparallel")
    }
    programs = {name: api.runnable(graph, plan, costs).program for name, plan in plans.items()}
    in_turn = RunSettings(schedule="sync", micro_batches=1)

    def times(name: str, flow: RunSettings) -> float:
        once, twice = (predicted_us(programs[name], flow, Paces(1.0, (together,))) for together in (1.0, 2.0))
        return twice / once

    # Updates are side by side in both.
    assert times("layerwise", in_turn) < 1.3
    assert times("dataparallel", in_turn) > 1.8


@needs_hosts
@pytest.mark.timeout(180)
def test_what_it_costs_to_be_able_to_lose_a_host() -> None:
    own = replace(PLAIN, costs="measured", repeats=1, steps=4, only=("by time",), survive_every=2)
    rows = {(row.method, row.schedule): row for row in bench_hosts(replace(SETTINGS, bench=own)).bench.rows}
    for schedule in ("sync", "async"):
        plain, copying = rows["by time", schedule], rows["by time, survive", schedule]
        assert copying.images_per_s
        assert not copying.note
        assert copying.predicted_us > plain.predicted_us


def test_copies_after_no_update() -> None:
    with pytest.raises(UsageError, match="--survive-every 0 is less than 1"):
        replace(PLAIN, survive_every=0)
