"""Workers fail, die and hang as processes do; each time the bench gets one line that says who, and new workers."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hyperplace.bench import cores
from hyperplace.bench.cores import Seat, seats, seats_line
from hyperplace.bench.jobs import Entry, Job, Start
from hyperplace.bench.netns import on_loopback
from hyperplace.bench.workers import WorkerFault, Workers
from hyperplace.errors import UsageError

START = Start("lenet5", None, 0, "lo", 60.0)
DDP, PLAIN = Job("open", Entry("ddp", 4)), Job("open", Entry("plain", 4))


@pytest.fixture
def workers(tmp_path):
    with Workers(on_loopback(2), (Seat(None),) * 2, START, tmp_path) as made:
        yield made


def pids(workers) -> list[int]:
    return [worker.process.pid for worker in workers._workers]


def test_they_live_for_all_jobs_and_end_with_the_block(workers) -> None:
    workers.ask(DDP, 2)
    first = pids(workers)
    replies = workers.ask(Job("give", number=2), 2)
    workers.ask(Job("close"), 2)
    workers.ask(PLAIN, 1)
    (alone,) = workers.ask(Job("give", number=1), 1)
    assert pids(workers) == first
    assert all(reply.seconds >= reply.last_s > 0 and reply.busy_s > 0 for reply in (*replies, alone))
    workers.end()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in first)


def test_a_fault_a_death_and_silence_name_the_host_and_the_next_job_finds_new_workers(workers) -> None:
    with pytest.raises(WorkerFault, match=r"host [01] failed: FileError: cannot read nowhere\.json"):
        workers.ask(Job("open", Entry("plan", 4, "async", plan="nowhere.json")), 2)
    workers.ask(DDP, 2)
    os.kill(pids(workers)[1], signal.SIGKILL)
    with pytest.raises(WorkerFault, match="host 1 ended with SIGKILL"):
        workers.ask(Job("give", number=3), 2)
    workers.ask(PLAIN, 1)
    stopped = pids(workers)
    os.kill(stopped[0], signal.SIGSTOP)
    workers.silence_s = 0.5
    with pytest.raises(WorkerFault, match=r"host 0 said nothing for 0\.5 s"):
        workers.ask(Job("give", number=1), 1)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in stopped)


def test_a_worker_that_cannot_start_says_why(tmp_path) -> None:
    words = r"host [01] ended with exit code 1: .*ModelError: no model named 'vgg61'"
    workers = Workers(on_loopback(2), (Seat(None),) * 2, replace(START, spec="vgg61"), tmp_path)
    with workers, pytest.raises(WorkerFault, match=words):
        workers.ask(DDP, 2)


def test_every_host_has_a_core_or_an_equal_share(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    with seats(2) as two:
        assert two == (Seat(3), Seat(5))
        assert seats_line(two) == "a core each"
    with seats(5) as five:
        assert [seat.core for seat in five] == [3, 5, 3, 5, 3]
        assert {seat.share for seat in five} == {1 / 3}
        groups = [seat.group for seat in five if seat.group]
        assert len(groups) in (0, 5), "all of them are limited, or none"
        assert ("0.333 of a core" if groups else "3 on a core together") in seats_line(five)
    assert not any(group.exists() for group in groups)


def test_hosts_have_the_shares_that_were_asked_for(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5})
    monkeypatch.setattr(cores, "_limited", lambda index, share: Path(f"/nowhere/{index}"))
    with seats(3, (0.6, 1.0, 0.4)) as three:
        assert [(seat.core, seat.share, seat.group and seat.group.name) for seat in three] == [
            (3, 0.6, "0"),
            (5, 1.0, None),
            (3, 0.4, "2"),
        ]
        assert seats_line(three) == "0.6, 1, 0.4 of a core"
    with pytest.raises(UsageError, match=r"ask for 1.1 of core 0"), seats(3, (0.6, 1.0, 0.5)):
        pass
    monkeypatch.setattr(cores, "_limited", lambda index, share: None)
    with pytest.raises(UsageError, match="needs control groups"), seats(2, (1.0, 0.4)):
        pass
