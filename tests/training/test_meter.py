"""Readings of a run: every loss once and in order, shares of time, and no more of them than asked for."""

import math
from collections import Counter
from types import SimpleNamespace

import pytest
from training_cases import FLOW, SETTINGS, Runner

from hyperplace.runtime.gauges import read_gauges
from hyperplace.training import Flow
from hyperplace.training import run as running
from hyperplace.training.epoch import Snapshot
from hyperplace.training.meter import Meter
from hyperplace.values.reading import Gauge

SHOWN = Snapshot("async", 0, 1, 2, 3, 6, 0.0, 0.0, 0.0, ())


@pytest.mark.parametrize("flow", [FLOW, Flow("sync", threads=1, micro_batches=2)])
def test_readings_have_every_loss_of_a_run_once(tmp_path, flow, monkeypatch):
    found = []
    monkeypatch.setattr(running, "Meter", lambda *given, **words: Meter(*given, **words, every_s=0.0))
    outcome = Runner(tmp_path)(flow=flow, on_reading=found.append)
    ends = [one for one in found if one.test_accuracy is not None]
    assert [(one.epoch, one.num_batches) for one in ends] == [(1, 6), (2, 12)]
    for row in outcome.rows:
        losses = [loss for one in found if one.epoch == row.epoch for loss in one.losses]
        assert len(losses) == 6
        assert sum(losses) / 6 == pytest.approx(row.train_loss)
    assert found[-1].moved_bytes == outcome.moved_bytes
    assert found[-1].staleness == pytest.approx(outcome.staleness)
    assert all(0 <= share <= 1 for one in found for share in one.busy)
    again = []
    Runner(tmp_path)(
        SETTINGS.__class__(**{**vars(SETTINGS), "epochs": 3}), flow=flow, resume=True, on_reading=again.append
    )
    assert again[-1].num_batches == 18


class Overheard:
    """A world of three processes, of which the last has not been heard and the second says something."""

    number, size = 0, 3

    def __init__(self, second):
        self.said, self._second = "", second

    def heard(self, key, text):
        self.said = text
        return [text, self._second, ""]


def test_gauges_of_other_processes_are_as_they_were_last_heard():
    rank = SimpleNamespace(
        number=1, journal=SimpleNamespace(busy_ns=3e9), weights=SimpleNamespace(staleness=SimpleNamespace(mean=0.5))
    )

    def read(second):
        world = Overheard(second)
        trainer = SimpleNamespace(ranks=[rank], world=world, sent_bytes=lambda: Counter({1: 70}))
        return read_gauges(trainer), world.said

    gauges, said = read("[[0,12.5,4.25,1.5,1000]]")
    assert gauges[0] == Gauge(0, 12.5, 4.25, 1.5, 1000)
    assert (gauges[1].part, gauges[1].busy_s, gauges[1].sent_bytes) == (1, 3.0, 70)
    assert len(gauges) == 2
    assert read(said.replace("[[1", "[[7"))[0][1].part == 7, "what one says, another understands"
    for broken in ("", "[[0,12.5,4.2", "[[0]]", "7", '[["a",1,1,1,1]]'):
        assert [gauge.part for gauge in read(broken)[0]] == [1]


def test_shares_are_since_the_reading_before_and_a_new_generation_begins_anew():
    gauges, found = [], []
    meter = Meter(lambda: list(gauges), found.append, every_s=0.0)

    def read(*now):
        gauges[:] = now
        meter.add_loss(1.0, 16)
        meter.on_step(SHOWN)
        return found[-1]

    assert read(Gauge(0, 10.0, 2.0, 1.0, 100)).busy == (None,)
    assert read(Gauge(0, 12.0, 3.0, 1.0, 150), Gauge(2, 7.0, 1.0, 2.0, 50)).busy == (0.5, None, None)
    assert found[-1].staleness == (1.0, None, 2.0)
    assert found[-1].moved_bytes == 200
    assert read(Gauge(0, 13.0, 9.0, 1.0, 150)).busy == (1.0, None, None)[:1]
    assert read(Gauge(0, 14.0, 0.5, 0.0, 10)).busy == (1.0,), "what was heard last stays until there is more"
    assert read(Gauge(0, 16.0, 1.0, 0.0, 20)).busy == (0.25,)


def test_there_are_not_more_readings_than_asked_for():
    found = []
    meter = Meter(list, found.append, every_s=math.inf)
    for number in range(100):
        meter.add_loss(number, 1)
        meter.on_step(SHOWN)
    assert found == []
    meter.on_trained(SHOWN)
    assert found[0].losses == tuple(range(100))
    assert found[0].loss == pytest.approx(49.5)
    meter.on_tested(SHOWN)
    assert (found[1].losses, found[1].loss, found[1].images_per_s) == ((), None, None)
