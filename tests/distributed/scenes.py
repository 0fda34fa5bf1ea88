"""Run under torchrun: scenes from the life of a trainer in several processes, each told as lines of JSON by the ranks.

torchrun --nproc-per-node 2 tests/distributed/scenes.py SCENE FOLDER
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.errors import HyperplaceError
from hyperplace.runtime.hosts.joining import joined
from hyperplace.steps.simulate import memory

BEGIN = time.monotonic()
AHEAD_NS = 5_000_000_000
SO_MAX_PACING_RATE = 47  # as Linux numbers it


class Net(nn.Module):
    """Two convolutions and a batch norm, with dropout: something of everything that parts keep."""

    def __init__(self, filters=8):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, filters, 3, padding=1),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.Conv2d(filters, 8, 3, padding=1),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 10),
        )

    def forward(self, x):
        return self.layers(x)


def say(**words):
    """Print a line at once and whole: several processes write to the same place."""
    os.write(
        1, (json.dumps({"rank": dist.get_rank(), "s": round(time.monotonic() - BEGIN, 1), **words}) + "\n").encode()
    )


def rows(number, count=8):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(count, 3, 8, 8, generator=generator), torch.randint(10, (count,), generator=generator)


def made(k=None, grain="hybrid", partitioner="horizontal", filters=8, seed=0, **words):
    """Return a trainer of the net, in as many processes as there are."""
    torch.manual_seed(seed)
    net = Net(filters).train()
    k = k or dist.get_world_size()
    plan = hyperplace.place(net, rows(0)[0], k=k, grain=grain, partitioner=partitioner, imbalance=1.0)
    optimizer = words.pop("optimizer", lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9))
    return hyperplace.compile(
        net, plan, **{"optimizer": optimizer, "loss": F.cross_entropy, "in_flight": 2, "threads": 1, **words}
    )


def steps(trainer, first, last):
    losses = [trainer.step(*rows(number)) for number in range(first, last)]
    trainer.flush()
    return [loss.item() for loss in losses]


def life(folder):
    """Train, save both ways, go on, and go on again from what was saved."""
    with made() as trainer:
        before = steps(trainer, 0, 4)
        hyperplace.save_checkpoint(trainer, folder / "whole.pt", {"note": 7})
        hyperplace.save_checkpoint(trainer, folder / "shards", {"note": 8}, sharded=True)
        after = steps(trainer, 4, 8)
        state = trainer.state_dict()
        means = [part.mean for part in trainer.staleness]
    for name in ("whole.pt", "shards"):
        with made() as again:
            extra = hyperplace.load_checkpoint(again, folder / name)
            resumed = steps(again, 4, 8)
            other = again.state_dict()
        same = all(torch.equal(state[key], other[key]) for key in state)
        say(
            what=name,
            extra=extra,
            same_losses=resumed == after,
            same_state=same,
            num=len(state),
            num_batches=again.num_batches,
        )
    say(what="losses", before=before, after=after, num_parts_here=len(means))


def go_on(folder):
    """Go on from shards that somebody else wrote."""
    with made() as trainer:

        def load():
            hyperplace.load_checkpoint(trainer, folder / "shards")
            say(losses=steps(trainer, 3, 6))

        _told(load, is_quiet=True)


def timeline(folder):
    """Record what happens while the clock of rank 1 is ahead, as that of another host may be."""
    clock = time.perf_counter_ns
    time.perf_counter_ns = lambda: clock() + dist.get_rank() * AHEAD_NS
    try:
        with made(record=True) as trainer:
            steps(trainer, 0, 6)
            found = trainer.timeline()
            ahead_us = trainer.world.clock_ahead_ns() / 1e3
    finally:
        time.perf_counter_ns = clock
    events = [[e.part, e.kind, e.batch, e.start_us, e.end_us] for e in found.events]
    say(what="timeline", num_parts=found.num_parts, ahead_us=ahead_us, events=events)


def autocast(folder):
    """Train in bfloat16, in these processes and on threads."""
    with made(schedule="async") as trainer:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            losses = [trainer.step(*rows(number)) for number in range(4)]
            outputs = trainer.predict(rows(9)[0])
        trainer.flush()
        say(
            what="autocast",
            losses=[loss.item() for loss in losses],
            dtype=str(outputs.dtype),
            total=float(outputs.double().sum()),
        )


def fault(folder):
    """Let the optimizer of the last rank fail once the run is under way."""
    is_armed = []

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            if is_armed and dist.get_rank() == dist.get_world_size() - 1:
                raise ValueError("no more")
            return super().step(closure)

    with made(optimizer=lambda ps: Failing(ps, lr=0.01)) as trainer:
        steps(trainer, 0, 3)
        is_armed.append(True)
        _told(lambda: steps(trainer, 3, 50))
    _told(lambda: trainer.step(*rows(0)))


def kill_first(folder):
    _kill(0)


def kill_last(folder):
    _kill(dist.get_world_size() - 1)


def _kill(rank):
    """Let a rank be killed while others go on."""
    with made() as trainer:
        steps(trainer, 0, 2)
        if dist.get_rank() == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        _told(lambda: steps(trainer, 2, 50))


def stop_while_sending(folder):
    """Let the first rank be stopped when a large message of it has begun to arrive, and has not yet arrived."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 64, 1), nn.Conv2d(64, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    images = torch.ones(8, 3, 96, 96)
    plan = hyperplace.place(net, images, k=2, grain="coarse", partitioner="layerwise", imbalance=1.0)
    mine, its = Path(folder, str(dist.get_rank())), Path(folder, "0")
    mine.write_text(str(os.getpid()))
    with hyperplace.compile(net, plan, optimizer=torch.optim.SGD, loss=F.cross_entropy, threads=1) as trainer:
        if dist.get_rank() == 0:
            _send_slowly()
        else:
            _stop_when_begun(trainer._transport, its)
        _told(lambda: trainer.step(images, torch.zeros(8, dtype=torch.int64)).item())
    say(in_vain=trainer._transport.waits_in_vain(1))
    os.kill(int(its.read_text()), signal.SIGKILL)


def stop_while_gathering(folder):
    """Let the last rank be stopped when half of its weights have come to the first."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Linear(8, 500_000))
    images = torch.ones(8, 3, 2, 2)
    plan = hyperplace.place(net, images, k=2, grain="coarse", partitioner="layerwise", imbalance=1.0)
    path = Path(folder, "last")
    with hyperplace.compile(net, plan, optimizer=torch.optim.SGD, loss=F.cross_entropy, threads=1) as trainer:
        trainer.step(images, torch.zeros(8, dtype=torch.int64)).item()
        trainer.flush()
        if dist.get_rank() == 1:
            _send_slowly()
            path.write_text(str(os.getpid()))
        else:
            threading.Thread(target=_stop_after, args=(path, 0.5), daemon=True).start()
        _told(trainer.state_dict)
        os.kill(int(path.read_text()), signal.SIGKILL)
        _told(trainer.flush)


def stop_before_closing(folder):
    """Let the last rank be stopped when the first closes its trainer, before it has said a word."""
    _stop_at_word(folder, 1)


def stop_while_closing(folder):
    """Let the last rank be stopped when all know that all close, and wait for what is still on the way."""
    _stop_at_word(folder, 2)


def _stop_at_word(folder, number):
    path, words = Path(folder, "last"), []
    trainer = made()
    steps(trainer, 0, 2)
    if dist.get_rank() == 1:
        path.write_text(str(os.getpid()))
        exchange = trainer.world.exchange

        def stopped(call, value):
            words.append(call)
            if words.count("close") == number:
                os.kill(os.getpid(), signal.SIGSTOP)
            return exchange(call, value)

        trainer.world.exchange = stopped
    _told(trainer.close)
    os.kill(int(path.read_text()), signal.SIGKILL)
    say(left=[thread.name for thread in threading.enumerate() if "part" in thread.name])


def _stop_after(path, seconds):
    while not path.exists():
        time.sleep(0.01)
    time.sleep(seconds)
    os.kill(int(path.read_text()), signal.SIGSTOP)


def _send_slowly():
    """Let the system send what goes over this process's connections at 10 MB/s."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as one:
            one.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 10_000_000)


def _stop_when_begun(network, path):
    """Stop a process as soon as the first bytes of a message of it are there."""
    post = network._irecv

    def stop(buffer):
        while not buffer.any():
            time.sleep(0.01)
        os.kill(int(path.read_text()), signal.SIGSTOP)

    def posted(buffer, key, is_head):
        if key.way == "forward":
            threading.Thread(target=stop, args=(buffer.zero_().view(-1)[:1000],), daemon=True).start()
        return post(buffer, key, is_head)

    network._irecv = posted


def lose_twice(folder):
    """Lose the last rank, and then the one before it."""
    losses = []
    with made(partitioner="dataparallel", survive=2, survive_every=4) as trainer:
        trainer.on_change = lambda change: None
        wanted = memory(trainer.program, trainer.schedule, optimizer="momentum")[trainer.world.number].copied
        for number in range(40):
            if number == 8:
                copied = _copied(trainer)
            if number in (10, 25) and dist.get_rank() == (2 if number == 10 else 1):
                trainer.flush()  # so that the others are there too
                os.kill(os.getpid(), signal.SIGKILL)
            losses.append(trainer.step(*rows(number)))
        trainer.flush()
        say(
            num_processes=[change.num_processes for change in trainer.changes],
            num_batches=trainer.num_batches,
            num_losses=sum(loss.is_ready for loss in losses),
            copied=copied,
            wanted=wanted,
        )


def _copied(trainer):
    """Return what the last copy took: the one at the start had no momentum yet."""
    trainer.flush()
    while trainer.buddies.num_sent < 3:
        time.sleep(0.01)
    return trainer.buddies.copy_bytes


def other_rows(folder):
    with made() as trainer:
        steps(trainer, 0, 2)
        _told(lambda: [trainer.step(*rows(3, 8 - 2 * dist.get_rank())).item() for _ in range(2)])


def other_calls(folder):
    with made() as trainer:
        steps(trainer, 0, 2)
        _told(lambda: trainer.state_dict() if dist.get_rank() else steps(trainer, 2, 6))


def other_collectives(folder):
    with made() as trainer:
        steps(trainer, 0, 2)
        _told(lambda: trainer.state_dict() if dist.get_rank() else trainer.moved_bytes())


def other_end(folder):
    """Close the trainer on rank 1 while rank 0 makes one more call."""
    with made() as trainer:
        steps(trainer, 0, 2)
        if dist.get_rank() == 0:
            _told(trainer.state_dict)


def own_fault(folder):
    """Let the caller's own code fail on rank 1, within the block."""

    def run():
        with made() as trainer:
            steps(trainer, 0, 2)
            if dist.get_rank() == 1:
                raise KeyError("mine")
            steps(trainer, 2, 50)

    _told(run)


def other_weights(folder):
    _told(lambda: made(seed=dist.get_rank()))


def other_shapes(folder):
    _told(lambda: made(filters=8 + 8 * dist.get_rank()))


def other_torch(folder):
    known = torch.__version__
    if dist.get_rank() == 1:
        torch.__version__ = "2.12.0"
    _told(made)
    torch.__version__ = known


def other_k(folder):
    _told(lambda: made(k=dist.get_world_size() + 1))


def other_plan(folder):
    _told(lambda: made(partitioner="random" if dist.get_rank() else "horizontal"))


def other_settings(folder):
    _told(lambda: made(in_flight=2 + dist.get_rank()))


def many(folder):
    """Take a thousand steps in all, and see that nothing grows."""
    trainers = [made(partitioner=how) for how in ("horizontal", "dataparallel")]
    for trainer in trainers:
        steps(trainer, 0, 50)
    begin = _held()
    for _ in range(10):
        for trainer in trainers:
            steps(trainer, 0, 50)
    say(begin=begin, end=_held())
    for trainer in trainers:
        trainer.close()
    with made() as third:  # connections of trainers that are closed are given back
        steps(third, 0, 2)
    say(closed=_held())


def reopen(folder):
    """Open and close trainers of a model of some size, and see that each is forgotten."""
    held, forgotten = [], []
    for _ in range(6):
        with made(partitioner="dataparallel", filters=4096) as trainer:
            steps(trainer, 0, 3)
        forgotten.append(weakref.ref(trainer))
        del trainer
        gc.collect()
        held.append(_held())
    say(held=held, num_alive=sum(one() is not None for one in forgotten))


def _held():
    for _ in range(10):  # a thread in which a loss was waited for has said so, and may be on its way out
        if not any(one.name == "hyperplace waits" for one in threading.enumerate()):
            break
        time.sleep(0.05)
    seen = []
    for _ in range(5):  # Python's thread is gone a little before the system's
        status = Path("/proc/self/status").read_text().splitlines()
        seen.append({line.split()[0]: int(line.split()[1]) for line in status if line.startswith(("VmRSS", "Threads"))})
        time.sleep(0.02)
    return {
        "kib": seen[-1]["VmRSS:"],
        "threads": min(one["Threads:"] for one in seen),
        "files": len(list(Path("/proc/self/fd").iterdir())),
    }


def refusals(folder):
    """All ways in which ranks may differ, one after the other: each ends its own trainer and no more."""
    for scene in REFUSALS:
        say(scene=scene.__name__)
        _told(lambda scene=scene: scene(folder), is_quiet=True)


def everything(folder):
    """What trains to its end, one after the other."""
    for scene in (life, timeline, autocast):
        scene(folder)


REFUSALS = (
    own_fault,
    other_rows,
    other_calls,
    other_collectives,
    other_end,
    other_weights,
    other_shapes,
    other_torch,
    other_k,
    other_settings,
    other_plan,
)


def _told(work, *, is_quiet=False):
    try:
        work()
    except (HyperplaceError, KeyError) as error:
        say(error=f"{type(error).__name__}: {error}")
    else:
        if not is_quiet:
            say(error=None)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with joined():
        globals()[sys.argv[1]](Path(sys.argv[2]))
