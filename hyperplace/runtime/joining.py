"""Join the processes that torchrun has started, and let none of them wait for one that has failed before it came.

torch.distributed connects everybody to everybody when it is initialised, and whoever cannot leaves all others waiting.
So each process first looks whether it can, says so in the store that all of them have, and goes on once all have.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store
from torch.distributed.rendezvous import rendezvous

from hyperplace.errors import HyperplaceError, TrainingError
from hyperplace.runtime.processes import ABORT, NEVER, POLL_S, default_store, say_end

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
STORE_S = timedelta(seconds=60)  # to reach the host that has the store
HEARD_S = 5.0
INTERFACE = "GLOO_SOCKET_IFNAME"


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
    number = _join()
    try:
        yield number
    except HyperplaceError as fault:
        text = str(fault)
        said = text if text.startswith("rank ") or "ranks " in text else f"rank {number}: {text}"
        _say_end(said)
        raise TrainingError(said) from fault
    except BaseException as fault:
        _say_end(f"rank {number} ended with {type(fault).__name__}: {fault}")
        raise
    else:
        dist.destroy_process_group()


def shared_text(name: str, make: Callable[[], str]) -> str:
    """Return a text that the first process makes and all others get, however long it takes."""
    if not dist.is_initialized():
        return make()
    store = default_store()
    if dist.get_rank() == 0:
        store.set(name, text := make())
        return text
    while not store.check([name]):
        if store.check([ABORT]):
            raise TrainingError(store.get(ABORT).decode())
        time.sleep(POLL_S)
    return str(store.get(name).decode())


def _join() -> int:
    try:
        store, number, size = next(iter(rendezvous("env://", timeout=STORE_S)))
    except (RuntimeError, ValueError) as fault:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        reason = " ".join(str(fault).split())
        if "EADDRINUSE" in reason:
            raise TrainingError(f"rank 0: port {where} is in use; give another --master-port") from None
        raise TrainingError(f"rank {os.environ['RANK']} cannot reach rank 0 at {where}: {reason[:200]}") from None
    lobby = PrefixStore("hyperplace lobby", store)
    if missing := _interface_fault():
        say_end(lobby, f"rank {number}: {missing}")
    lobby.set(f"ready/{number}", "")
    for other in range(size):
        _await(lobby, other)
    dist.init_process_group("gloo", store=PrefixStore("hyperplace", store), rank=number, world_size=size, timeout=NEVER)
    return int(number)


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


def _await(lobby: Store, other: int) -> None:
    deadline = time.monotonic() + STORE_S.total_seconds()
    while True:
        if lobby.check([ABORT]):
            raise TrainingError(lobby.get(ABORT).decode())
        if lobby.check([f"ready/{other}"]):
            return
        if time.monotonic() > deadline:
            raise TrainingError(f"rank {other} has not come within {STORE_S.total_seconds():.0f} s; is it started?")
        time.sleep(POLL_S)


def _say_end(reason: str) -> None:
    """Tell all others, and give them time to hear it: whoever started them ends all as soon as one has ended."""
    store = default_store()
    with suppress(RuntimeError):  # the store has gone before
        say_end(store, reason)
        store.set(f"heard/{dist.get_rank()}", "")
        everyone = [f"heard/{number}" for number in range(dist.get_world_size())]
        deadline = time.monotonic() + HEARD_S
        while time.monotonic() < deadline and not store.check(everyone):
            time.sleep(POLL_S)
