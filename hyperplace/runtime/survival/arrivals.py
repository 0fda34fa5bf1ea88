"""How a process that waits at a door becomes one of the run: it is chosen, invited, and listened to.

    all               who has guests, and which number has nobody had yet?        (choose)
    all               a port for the guest, each
    its host, guest   the invitation with these ports; the answer has the guest's own
    all               listen to it, meet at a new store, make a trainer of the larger plan, take the state of the first

Until the last of these, the trainer that all have stays as it is: where the guest is lost, nothing has happened.
"""

import atexit
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store, TCPStore

from hyperplace.errors import TrainingError
from hyperplace.runtime.checkpoints.saved import Saved, as_saved
from hyperplace.runtime.checkpoints.shards import merged, shard_of
from hyperplace.runtime.hosts.heartbeat import END, Heart
from hyperplace.runtime.hosts.processes import POLL_S, Processes
from hyperplace.runtime.survival.door import Door, Guest
from hyperplace.runtime.trainer import Trainer

MEET_S = timedelta(seconds=20)  # to reach the store of those who are left
CALL = "take_in"
SWAPPED = "in/"  # what is said of a generation that one has begun
SURE_S = 1.0  # to hear that somebody has: several beats


@dataclass(frozen=True)
class Choice:
    """Who has the guest, and the number it gets."""

    host: int
    number: int


@dataclass(frozen=True)
class Arrived:
    """What a new generation begins with: the state of the one before, and how far its calls are."""

    saved: Saved
    loads: int
    num_done: int


def choose(world: Processes, num_waiting: int, most: int) -> Choice | None:
    """Return who is to be let in, if anybody is and there is room; all find the same."""
    told = world.exchange(CALL, [num_waiting, world.heart.next_number])
    hosts = [number for number, (count, _) in enumerate(told) if count]
    if world.size >= most or not hosts:
        return None
    return Choice(hosts[0], max(number for _, number in told))


def admitted(world: Processes, door: Door | None, choice: Choice, key: str) -> bool:
    """Invite the guest, and say whether it came."""
    heart, answer = world.heart, ""
    addresses = world.exchange(CALL, heart.invite(choice.number))
    if world.number == choice.host and door:
        of = dict(zip(map(str, world.members), addresses, strict=True))
        words = {"number": choice.number, "run": heart.run, "members": of, "key": key, "each": len(world.parts)}
        answer = door.invite(words)
    answer = world.share(CALL, answer, choice.host)
    if not answer:
        heart.withdraw(choice.number)
        return False
    heart.admit(choice.number, answer)
    return True


def content_of(trainer: Trainer, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint would have now, in the first process; nothing elsewhere."""
    shards = trainer.settled(lambda: [shard_of(trainer, rank) for rank in trainer.ranks])
    found = trainer.world.gather(CALL, shards)
    if not found:
        return {}
    return merged(trainer.state, [shard for some in found for shard in some]) | {"extra": dict(extra)}


def met(heart: Heart, members: Sequence[int], each: int) -> Processes:
    """Return some processes, met at a store of their own and connected.

    Generations are named by who is there and how many have ever been: never twice the same.
    """
    name = f"{'-'.join(map(str, members))} of {heart.next_number}"
    store = _met_store(heart, members, f"store/{name}")
    world = Processes(each * len(members), each, heart=heart, store=store, members=members, name=name)
    world.connect()
    heart.say(f"store/{name}", "")
    return world


def _met_store(heart: Heart, members: Sequence[int], key: str) -> Store:
    """Return a store that the first of them has; the one of torch.distributed may be gone."""
    first = members[0]
    if heart.number == first:
        store = TCPStore(heart.home_of(first), 0, is_master=True, wait_for_workers=False)
        heart.say(key, str(store.port))
        return store

    def fault() -> TrainingError | None:
        said = heart.said(END)
        return TrainingError(next(iter(said.values()))) if said else heart.fault(members)

    while first not in heart.said(key):  # it may be long in the caller's own code, and lives
        if found := fault():
            raise found
        time.sleep(POLL_S)
    port, home = int(heart.said(key)[first]), heart.home_of(first)
    return heart.watched(lambda: TCPStore(home, port, is_master=False, timeout=MEET_S), fault)


def taken(trainer: Trainer, content: Mapping[str, Any], loads: int, num_done: int) -> Arrived:
    """Load what the first process has into the trainers of all, and wait until all have."""
    world = trainer.world
    shared = world.share(CALL, {"content": content, "loads": loads, "num_done": num_done}, 0)
    saved = as_saved("what the others have", shared["content"])
    trainer.load(saved)
    _confirm(_processes_of(trainer))
    return Arrived(saved, shared["loads"], shared["num_done"])


def _confirm(world: Processes) -> None:
    """Wait until all have loaded; where one is lost meanwhile, some may have heard of all others, and others not."""
    try:
        world.exchange(CALL, "loaded")
    except TrainingError:
        if not _has_swapped(world.heart, world.name):
            raise


def _processes_of(trainer: Trainer) -> Processes:
    assert isinstance(trainer.world, Processes)
    return trainer.world


def say_swapped(heart: Heart, name: str) -> None:
    """Let all hear that this process has begun a generation; of earlier ones no more is said."""
    for old in heart.own_keys(SWAPPED):
        heart.say(old, "")
    heart.say(f"{SWAPPED}{name}", name)


def _has_swapped(heart: Heart, name: str) -> bool:
    """Say whether somebody has begun a generation, which it only does once all have loaded."""
    deadline = time.monotonic() + SURE_S
    while time.monotonic() < deadline:
        if heart.said(f"{SWAPPED}{name}"):
            return True
        time.sleep(POLL_S)
    return False


def entered(guest: Guest) -> tuple[Processes, str]:
    """Wait for an invitation, and return the processes of the run with this one among them, and its name for calls."""
    words = guest.invitation()
    addresses = {int(member): address for member, address in words["members"].items()}
    heart = Heart.of_guest(int(words["number"]), str(words["run"]), addresses)
    guest.answer(heart.address)
    guest.close()
    heart.begin()
    atexit.register(heart.close)
    return met(heart, [*addresses, heart.number], int(words["each"])), str(words["key"])


def differences(welcome: Mapping[str, Any], own: Mapping[str, Mapping[str, str]]) -> str:
    """Say in what a guest differs from the run, if in anything; its weights it gets from there."""
    for topic, known in json.loads(welcome["facts"]).items():
        if topic in own and not topic.startswith("weights") and known != own[topic]:
            name = next(name for name in {**known, **own[topic]} if known.get(name) != own[topic].get(name))
            return f"{topic}: {name} is {known.get(name)} there and {own[topic].get(name)} here"
    return ""
