"""One host's process: it trains what it is told, line by line, together with those of the other hosts.

It lives for all turns of a bench, so that starting Python, torch and the process group is paid once.
"""

import copy
import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import cycle
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from hyperplace import api
from hyperplace.allocator import keep_memory, num_faults
from hyperplace.bench.contender import sgd
from hyperplace.bench.jobs import (
    CLOSE,
    DDP,
    GIVE,
    GPIPE,
    ONE_F_ONE_B,
    OPEN,
    PLAIN,
    PLAN,
    PROBE,
    WATCH,
    Entry,
    Job,
    Reply,
    Start,
    line_of,
)
from hyperplace.bench.measure import Batch, give, made_up
from hyperplace.bench.netns import LOOPBACK, sent_bytes, settled_bytes
from hyperplace.bench.outside import DataParallel, Pipeline
from hyperplace.files.cluster import cluster_text, read_cluster
from hyperplace.files.timeline import timeline_text
from hyperplace.models import load_model
from hyperplace.processor import take_turns
from hyperplace.runtime import Survivor, Trainer
from hyperplace.runtime.hosts.probe import probe
from hyperplace.training.learner import PlainLearner

DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
MOST_SETTLING_S = 60.0  # what is left to send after the last mini-batch; on loopback, where all talk, nobody asks


def main() -> None:
    """Serve jobs from stdin until it ends."""
    start = Start.parse(sys.argv[1])
    _die_with_parent()
    keep_memory()  # for all contenders alike, as is the next
    take_turns()
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed must not stand between replies
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=start.silence_s))
    worker = Worker(start)
    replies.write(line_of(Reply()))
    for line in sys.stdin:
        replies.write(line_of(worker.reply(Job.parse(line))))
    os._exit(0)  # the others may be gone already, and an orderly end would wait for them


def _die_with_parent() -> None:
    """End with the process that started this one, however that ends: nobody else would."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)


class Worker:
    """The model, and what trains it at the moment."""

    def __init__(self, start: Start) -> None:
        torch.manual_seed(start.seed)
        loaded = load_model(start.spec, start.shapes, device="cpu")
        self._start = start
        self._model: nn.Module = loaded.module
        self._sample: tuple[torch.Tensor, ...] = loaded.sample
        self._learner: Any = None
        self._source: Iterator[Batch] = iter(())
        self._num_given = self._sent_before = 0
        self._jobs: dict[str, Callable[[Job], Reply]] = {
            PROBE: self._probe,
            OPEN: self._open,
            GIVE: self._give,
            WATCH: self._watch,
            CLOSE: self._close,
        }

    def reply(self, job: Job) -> Reply:
        """Do a job; a fault is an answer like any other."""
        try:
            return self._jobs[job.do](job)
        except Exception as fault:  # a worker's edge: anything can come out of a backend
            return Reply(fault=f"{type(fault).__name__}: {fault}".splitlines()[0])

    def _probe(self, job: Job) -> Reply:
        return Reply(cluster=cluster_text(probe()))

    def _open(self, job: Job) -> Reply:
        assert job.entry is not None
        self._source = cycle(made_up(self._sample, job.entry.batch, self._start.seed))
        self._learner = opened(job.entry, copy.deepcopy(self._model))
        self._num_given = 0
        return Reply()

    def _give(self, job: Job) -> Reply:
        if not self._num_given:
            self._sent_before = sent_bytes(self._start.interface)
        give(self._learner, self._source, job.settling)
        sent, faults = sent_bytes(self._start.interface), num_faults()
        begin, busy = time.perf_counter(), time.process_time()
        give(self._learner, self._source, job.number - 1)
        last = time.perf_counter()
        give(self._learner, self._source, 1)
        end = time.perf_counter()
        self._num_given += job.settling + job.number
        return Reply(
            seconds=end - begin,
            last_s=end - last,
            busy_s=time.process_time() - busy,
            faults=num_faults() - faults,
            sent_bytes=sent_bytes(self._start.interface) - sent,
        )

    def _watch(self, job: Job) -> Reply:
        """Finish what is under way, then read; the reading itself may send, and does not count."""
        trainer = self._learner
        assert isinstance(trainer, Trainer)
        trainer.flush()
        limit_s = 0.0 if self._start.interface == LOOPBACK else MOST_SETTLING_S
        sent = settled_bytes(self._start.interface, limit_s) - self._sent_before
        moved = sum(trainer.moved_bytes().values()) / self._num_given
        return Reply(sent_bytes=sent, moved_bytes=moved, timeline=timeline_text(trainer.timeline()))

    def _close(self, job: Job) -> Reply:
        if isinstance(self._learner, Trainer | Survivor):
            self._learner.flush()
            self._learner.close()
        self._learner = None
        gc.collect()  # models that hang together in circles are memory the next one needs
        return Reply()


def opened(entry: Entry, model: nn.Module) -> Any:
    """Return what trains the model, with a method `step`."""
    return WAYS[entry.way](entry, model)


def _planned(entry: Entry, model: nn.Module) -> Trainer | Survivor:
    return api.compile(
        model,
        api.load_plan(entry.plan),
        optimizer=sgd,
        loss=functional.cross_entropy,
        schedule=entry.schedule,
        in_flight=entry.in_flight,
        micro_batches=entry.micro_batches,
        threads=1,
        record=entry.record,
        cluster=read_cluster(entry.cluster) if entry.cluster else None,
        survive=int(entry.survive_every > 0),
        survive_every=entry.survive_every or 1,
    )


def _pipeline(entry: Entry, model: nn.Module) -> Pipeline:
    pieces = entry.micro_batches
    return Pipeline(model, sgd, functional.cross_entropy, way=entry.way, cuts=entry.cuts, micro_batches=pieces)


WAYS: dict[str, Callable[[Entry, nn.Module], Any]] = {
    PLAIN: lambda entry, model: PlainLearner(model, sgd(model.parameters()), functional.cross_entropy),
    PLAN: _planned,
    DDP: lambda entry, model: DataParallel(model, sgd, functional.cross_entropy),
    GPIPE: _pipeline,
    ONE_F_ONE_B: _pipeline,
}

if __name__ == "__main__":
    main()
