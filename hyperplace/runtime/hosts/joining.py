"""Join the processes that torchrun has started, and let none of them wait for one that has failed before it came.

torch.distributed connects everybody to everybody when it is initialised, and whoever cannot leaves all others waiting.
So each process first looks whether it can, says so in the store that all of them have, and goes on once all have. From
then on each knows whether the others live.
"""

import atexit
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store
from torch.distributed.rendezvous import rendezvous

from hyperplace.errors import HostLost, HyperplaceError, TrainingError
from hyperplace.runtime.hosts.addresses import INTERFACE, MASTER
from hyperplace.runtime.hosts.heartbeat import END, LOST, Heart
from hyperplace.runtime.hosts.processes import ABORT, NEVER, POLL_S, default_store

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
STORE_S = timedelta(seconds=60)  # to reach the host that has the store
HEARD_S = 5.0

_known: list[tuple[Store, Heart]] = []  # this process's, with what it has met the others by


def is_started() -> bool:
    """Say whether this is one of several processes that were started to train together."""
    return all(name in os.environ for name in VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def joined() -> Iterator[int]:
    """Be one of the processes of a run in the block, if there are several; hand out its number.

    What ends one of them ends all, with the words of the first.
    """
    if not is_started() or dist.is_initialized():
        yield dist.get_rank() if dist.is_initialized() else 0
        return
    number, heart = _join()
    try:
        yield number
    except HyperplaceError as fault:
        text = str(fault)
        said = text if text.startswith("rank ") or "ranks " in text else f"rank {number}: {text}"
        _end(heart, fault, said)
        raise TrainingError(said) from fault
    except BaseException as fault:
        _end(heart, fault, f"rank {number} ended with {type(fault).__name__}: {fault}")
        raise
    else:
        heart.close()
        dist.destroy_process_group()


def own_heart() -> Heart:
    """Return the signs of life of this process, begun with all others at the first call where nobody has before."""
    store = default_store()
    if not (_known and _known[0][0] is store):
        _known[:] = [(store, _met(store, dist.get_rank(), dist.get_world_size()))]
    return _known[0][1]


def shared_text(name: str, make: Callable[[], str]) -> str:
    """Return a text that the first process makes and all others get, however long it takes."""
    if not dist.is_initialized():
        return make()
    store, heart = default_store(), own_heart()
    if dist.get_rank() == 0:
        store.set(name, text := make())
        return text

    def read() -> str:
        while not store.check([name]):
            if said := heart.said(END):
                raise TrainingError(next(iter(said.values())))
            time.sleep(POLL_S)
        return str(store.get(name).decode())

    return heart.watched(read)


def _join() -> tuple[int, Heart]:
    try:
        store, number, size = next(iter(rendezvous("env://", timeout=STORE_S)))
    except (RuntimeError, ValueError) as fault:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = " ".join(str(fault).split())
        if "EADDRINUSE" in reason:
            raise TrainingError(f"rank 0: port {where} is in use; give another --master-port") from None
        raise TrainingError(f"rank {os.environ['RANK']} cannot reach rank 0 at {where}: {reason[:200]}") from None
    own = PrefixStore("hyperplace", store)
    heart = _met(store, number, size)
    heart.watched(lambda: dist.init_process_group("gloo", store=own, rank=number, world_size=size, timeout=NEVER))
    _known[:] = [(default_store(), heart)]
    return int(number), heart


def _met(store: Store, number: int, size: int) -> Heart:
    """Return this process's signs of life once all have come, or raise what keeps one of them from it."""
    lobby = PrefixStore("hyperplace lobby", store)
    heart = Heart(number, size)
    try:
        if missing := _interface_fault():
            lobby.compare_set(ABORT, "", f"rank {number}: {missing}")
        lobby.set(f"ready/{number}", heart.address)
        heart.start([_awaited(lobby, other) for other in range(size)])
    except RuntimeError:  # before anybody shows signs of life
        raise TrainingError(f"rank 0 on host {os.environ.get(MASTER)} was lost: the store is gone with it") from None
    atexit.register(heart.close)
    return heart


def _interface_fault() -> str:
    """Say why gloo cannot use the network interface that it is told to use."""
    name = os.environ.get(INTERFACE)
    if not name:
        return ""
    try:
        ProcessGroupGloo.create_device(interface=name.split(",")[0])
    except RuntimeError:
        return (
            f"{INTERFACE} is {name}, but there is no such interface here, or it has no address (ip address lists them)"
        )
    return ""


def _awaited(lobby: Store, other: int) -> str:
    deadline = time.monotonic() + STORE_S.total_seconds()
    while True:
        if lobby.check([ABORT]):
            raise TrainingError(lobby.get(ABORT).decode())
        if lobby.check([key := f"ready/{other}"]):
            return str(lobby.get(key).decode())
        if time.monotonic() > deadline:
            raise TrainingError(f"rank {other} has not come within {STORE_S.total_seconds():.0f} s; is it started?")
        time.sleep(POLL_S)


def _end(heart: Heart, fault: BaseException, reason: str) -> None:
    """Tell all others, and give them time to hear it: whoever started them ends all as soon as one has ended."""
    keys = heart.own_keys(LOST)
    if not isinstance(fault, HostLost):  # of which all hear without being told
        heart.say(END, reason)
        keys = [END]
    deadline = time.monotonic() + HEARD_S
    while time.monotonic() < deadline and not heart.all_say(keys):
        time.sleep(POLL_S)
