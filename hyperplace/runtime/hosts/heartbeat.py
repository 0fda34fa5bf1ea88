"""Signs of life between processes, and with them the few words that all must hear: who was lost, why a run has ended.

Every process beats to every other by UDP, four times a second, and each beat carries all that it has to say: a lost one
is made good by the next, and whoever is only slow is heard late instead of never, where a stream would stall. Nothing
passes through a third host, so whichever is lost, the others still hear each other; the store of torch.distributed
goes with the host that has it.

A process that has ended is known at once, for its host refuses the next beat; one that is stopped, or whose cable is
pulled, once it has been silent for some seconds. Only time in which this process could listen counts as silence: on a
machine so busy that the listener itself is kept waiting, whoever is to be heard may be kept waiting too.
"""

import errno
import hashlib
import json
import math
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hyperplace.errors import HostLost, TrainingError
from hyperplace.runtime.hosts.addresses import MASTER, family, is_local, own_address
from hyperplace.runtime.hosts.patience import LOOK_S, patiently

BEAT_S = 0.25
DEAD_S = 3.0  # of silence while a model is trained
BUSY_S = 4.0  # while it is read, captured or compiled: that holds Python's lock for up to 2 s at a time
REASON_S = DEAD_S + 1.0  # how long to look for who is lost or has ended, once a connection is gone
SLOW_S = 1.0  # of silence, or until an answer, of a process that lives
CALM_S = 15.0  # after that, before it is forgotten
MOST_LOOK_S = 2 * LOOK_S  # between two looks; what is above it, this process stood still or waited for a core
MORE_PRIORITY = -10  # as nice(1) counts; on Linux threads have their own
MOST_BYTES = 60_000  # of a beat, as UDP has it
MOST_CHARS = 1000  # of one of the words it carries
BUSY, BYE, LOST = "busy", "bye", "lost/"
END = "end"  # of a process; of a trainer with its name behind it
CUT_OFF = (errno.ENETUNREACH, errno.ENETDOWN)

T = TypeVar("T")


@dataclass
class Peer:
    """What is known of another process."""

    number: int
    socket: socket.socket
    place: str = ""  # its host's name and address
    said: dict[str, str] = field(default_factory=dict)
    heard: float = 0.0  # when, by this process's clock; 0 before the first beat
    silent_s: float = 0.0  # for which this process has listened since then
    stamp: float = 0.0  # on its last beat
    worst_s: float = 0.0  # the longest silence, or wait for an answer, so far
    late_at: float = -math.inf  # when one of them was last found to be long
    is_gone: bool = False  # its host has refused a beat: nobody has the socket any more

    @property
    def has_left(self) -> bool:
        return BYE in self.said

    @property
    def limit_s(self) -> float:
        """How long it may be silent before it is taken to be dead."""
        return BUSY_S if BUSY in self.said or not self.heard else DEAD_S

    def note(self, seconds: float, now: float) -> None:
        self.worst_s = max(self.worst_s, seconds)
        if seconds > SLOW_S:
            self.late_at = now

    def __str__(self) -> str:
        return f"rank {self.number} on host {self.place}"


class Heart:
    """This process's signs of life, and what it hears of the others; they know each other by their first numbers."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self._home = own_address()
        self._invited: dict[int, Peer] = {}
        # Never changed but replaced: several threads go through it.
        self._peers = {other: self._peer(other) for other in range(size) if other != number}
        self._left_behind: dict[int, str] = {}  # what those are called who were lost and are not listened to any more
        self._place = f"{socket.gethostname()} ({self._home})"
        self._said: dict[str, str] = {BUSY: BUSY}
        self._num_running = 0  # trainers
        self._lost: dict[int, str] = {}
        self._cut_off_since = 0.0
        self._own_fault = ""
        self._run = ""
        self._is_over = threading.Event()
        self._listeners: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._live, name="hyperplace beats", daemon=True)

    def _peer(self, other: int) -> Peer:
        # A socket for each pair: one that is connected to its peer is told when there is nobody any more.
        peer = Peer(other, socket.socket(family(self._home), socket.SOCK_DGRAM))
        peer.socket.bind(("", 0))
        peer.socket.setblocking(False)
        return peer

    @property
    def address(self) -> str:
        """Where the others find this process: what each must be told before `start`."""
        ports = {other: peer.socket.getsockname()[1] for other, peer in self._peers.items()}
        return json.dumps({"home": self._home, "place": self._place, "ports": ports})

    def start(self, addresses: Sequence[str]) -> None:
        """Begin to beat, with the addresses of all."""
        self._run = hashlib.sha256("\n".join(addresses).encode()).hexdigest()[:16]
        for other, peer in self._peers.items():
            self._connect(peer, json.loads(addresses[other]))
        self._thread.start()

    def _connect(self, peer: Peer, known: Mapping[str, Any]) -> None:
        home = known["home"]
        if peer.number == 0 and is_local(home) and not is_local(self._home):
            home = os.environ.get(MASTER, home)  # by the name that a host has in its own list it may be itself
        peer.place = str(known["place"])
        peer.socket.connect((home, known["ports"][str(self.number)]))

    @property
    def run(self) -> str:
        """What tells beats of this run from those of others."""
        return self._run

    @property
    def next_number(self) -> int:
        """A number that nobody here has had."""
        return max([self.number, *self._peers, *self._left_behind, *self._lost], default=0) + 1

    def invite(self, other: int) -> str:
        """Return where another process will find this one, which does not listen to it yet."""
        self._invited[other] = self._peer(other)
        port = self._invited[other].socket.getsockname()[1]
        return json.dumps({"home": self._home, "place": self._place, "ports": {str(other): port}})

    def admit(self, other: int, address: str) -> None:
        """Listen to whoever was invited, and to nobody any more who was lost before."""
        peer = self._invited.pop(other)
        self._connect(peer, json.loads(address))
        self._peers = {**self._peers, other: peer}

    def withdraw(self, other: int) -> None:
        """Take back an invitation, or part from a process that nothing is to be heard of any more."""
        if peer := self._invited.pop(other, None) or self._peers.get(other):
            self._left_behind[other] = str(peer)
            self._peers = {number: one for number, one in self._peers.items() if number != other}
            peer.socket.close()
            self.say(f"{LOST}{other}", "")

    @classmethod
    def of_guest(cls, number: int, run: str, invitations: Mapping[int, str]) -> "Heart":
        """Return the signs of life of a process that others have invited; they begin with `begin`."""
        heart = cls(number, 0)
        heart.size, heart._run = max(invitations) + 1, run
        for other, address in invitations.items():
            heart.invite(other)
            heart.admit(other, address)
        return heart

    def begin(self) -> None:
        """Begin to beat to those who were admitted."""
        self._thread.start()

    def place_of(self, number: int) -> str:
        """Return what a process is called in messages: its number and its host."""
        if number == self.number:
            return f"rank {number} on host {self._place}"
        return self._left_behind.get(number) or str(self._peers[number])

    def home_of(self, number: int) -> str:
        """Return the address at which a process can be reached."""
        return self._home if number == self.number else str(self._peers[number].socket.getpeername()[0])

    def note_trainer(self, *, has_ended: bool = False) -> None:
        """Note that a trainer is made, or has ended; without one a process is given more time."""
        self._num_running += -1 if has_ended else 1
        self.say(BUSY, "" if self._num_running else BUSY)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this whenever somebody has something new to say or is lost; it may not wait for anything."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        with suppress(ValueError):
            self._listeners.remove(listener)

    def say(self, key: str, text: str) -> None:
        """Let all others hear a text from now on; an empty one is forgotten."""
        if self._said.get(key, "") == text[:MOST_CHARS]:
            return
        if text:
            self._said[key] = text[:MOST_CHARS]
        else:
            self._said.pop(key, None)
        self.beat()

    def said(self, key: str) -> dict[int, str]:
        """Return what is being said under a key, by process."""
        found = {peer.number: peer.said[key] for peer in self._peers.values() if key in peer.said}
        return found | ({self.number: self._said[key]} if key in self._said else {})

    def own_keys(self, prefix: str) -> list[str]:
        """Return the keys under which this process says something, the oldest first."""
        return [key for key in self._said if key.startswith(prefix)]

    @property
    def lost(self) -> dict[int, str]:
        """Why each process that is lost is taken to be so."""
        return dict(self._lost)

    def fault(self, among: Sequence[int]) -> TrainingError | None:
        """Return that this process is cut off, or that some of the others are lost; nothing while all live."""
        if self._own_fault:
            return TrainingError(self._own_fault)
        lost = [number for number in among if number in self._lost]
        if not lost:
            return None
        said = "; ".join(f"{self.place_of(number)} was lost: {self._lost[number]}" for number in lost)
        return HostLost(said)

    def all_say(self, keys: Collection[str]) -> bool:
        """Say whether all others that are there say something under all of these keys."""
        here = [peer for peer in self._peers.values() if not (peer.has_left or peer.number in self._lost)]
        return all(set(keys) <= peer.said.keys() for peer in here)

    def slow(self) -> dict[int, float]:
        """Return who has been slow to show signs of life, and how many seconds at worst; the dead are not slow."""
        peers = [peer for peer in self._peers.values() if peer.number not in self._lost]
        return {peer.number: peer.worst_s for peer in peers if peer.worst_s > SLOW_S}

    def is_calm(self, among: Collection[int]) -> bool:
        """Say whether none of these has been slow of late, for whatever reason."""
        now = time.monotonic()
        return all(now - peer.late_at > CALM_S for peer in self._peers.values() if peer.number in among)

    def watched(self, work: Callable[[], T], fault: Callable[[], TrainingError | None] | None = None) -> T:
        """Return what some work gives that may wait for others, or raise a fault as soon as there is one.

        That is, unless told otherwise, that somebody is lost. What breaks a connection is known a little later than
        that it broke: a store goes with its host, and gloo does not say with whom it was.
        """
        look = fault or (lambda: self.fault(range(self.size)))
        try:
            return patiently(work, look)
        except RuntimeError as broken:
            reason = f"the ranks cannot be connected: {' '.join(str(broken).split())[:200]}"
            raise self.awaited(look) or TrainingError(reason) from None

    def awaited(self, fault: Callable[[], TrainingError | None]) -> TrainingError | None:
        """Return why a connection is gone, as soon as that is known; nothing where it is not heard of."""
        deadline = time.monotonic() + REASON_S
        while time.monotonic() < deadline:
            if found := fault():
                return found
            self.beat()  # a process that has ended refuses it
            time.sleep(LOOK_S / 2)
        return None

    def beat(self) -> None:
        """Show a sign of life now: goes in any thread, and waits for nobody."""
        now = time.monotonic()
        num_cut_off = sum(not self._sent(peer, now) for peer in self._peers.values() if not peer.has_left)
        if num_cut_off < len(self._peers):
            self._cut_off_since = 0.0
        elif not self._cut_off_since:
            self._cut_off_since = now

    def _sent(self, peer: Peer, now: float) -> bool:
        """Send a beat; return whether this host has a network to send it to."""
        echo = [peer.stamp, now - peer.heard] if peer.heard else None
        content = {"run": self._run, "at": now, "echo": echo, "said": self._said.copy()}
        try:
            peer.socket.send(json.dumps(content).encode()[:MOST_BYTES])
        except ConnectionRefusedError:
            peer.is_gone = True
        except OSError as fault:  # a full queue, no route: silence tells, where it lasts
            return fault.errno not in CUT_OFF
        return True

    def close(self) -> None:
        """Part from the others in good order; why, if there is a reason, is said to the last."""
        reasons = {key: text for key, text in self._said.items() if key.startswith((END, LOST))}
        self._said = {BYE: BYE, **reasons}
        self.beat()
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(2 * BEAT_S)
        for peer in self._peers.values():
            peer.socket.close()

    def _live(self) -> None:
        _go_first()
        with selectors.DefaultSelector() as selector:
            looked = due = time.monotonic()
            while not self._is_over.is_set():
                _listen(selector, self._peers.values())
                if time.monotonic() >= due:
                    self.beat()
                    due = time.monotonic() + BEAT_S
                gone = {peer.number for peer in self._peers.values() if peer.is_gone}  # their last words have come
                for key, _ in selector.select(LOOK_S):
                    self._hear(key.data)
                before, looked = looked, time.monotonic()
                self._judge(looked, looked - before, gone)

    def _hear(self, peer: Peer) -> None:
        while True:
            try:
                content = json.loads(peer.socket.recv(MOST_BYTES + 1))
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                peer.is_gone = True
                continue
            except OSError:
                return
            except ValueError:  # somebody else's words
                continue
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                if content["run"] == self._run:
                    self._take(peer, content, time.monotonic())

    def _take(self, peer: Peer, content: dict[str, object], now: float) -> None:
        stamp, echo, said = content["at"], content["echo"], content["said"]
        if not isinstance(stamp, float) or not isinstance(said, dict) or stamp < peer.stamp:  # a late one
            return
        if peer.number in self._lost:  # the others may have gone on without it
            return
        if peer.heard:
            peer.note(now - peer.heard, now)
        peer.heard, peer.silent_s, peer.stamp, before, peer.said = now, 0.0, stamp, peer.said, said
        if isinstance(echo, list):
            sent, held = echo
            peer.note(now - sent - held, now)
        for key in said:
            if key.startswith(LOST):
                self._lose(int(key.removeprefix(LOST)), said[key])
        if before != said:
            self._tell()

    def _judge(self, now: float, since_last_s: float, gone: Collection[int] = ()) -> None:
        """Give up who has ended, or is silent for too long: it may be stopped, or UDP does not come through.

        What has come meanwhile, such as last words, is heard already. A process has its sockets before the others know
        of them, so also one whose first beat never came has ended where its host refuses theirs.
        """
        for peer in self._peers.values():
            peer.silent_s += min(since_last_s, MOST_LOOK_S)
            if peer.has_left:
                continue
            if peer.number in gone:
                self._lose(peer.number, "its process has ended")
            elif peer.silent_s > peer.limit_s:
                self._lose(peer.number, f"it has shown no sign of life for {peer.limit_s:g} s")
        if self._cut_off_since and now - self._cut_off_since > DEAD_S / 2 and not self._own_fault:
            self._own_fault = f"{self.place_of(self.number)} has lost its network"
            self._tell()

    def _lose(self, number: int, reason: str) -> None:
        if number == self.number:
            if not self._own_fault:
                self._own_fault = f"{self.place_of(number)} was given up by the others: {reason}"
                self._tell()
        elif number not in self._lost:
            self._lost[number] = reason
            self.say(f"{LOST}{number}", reason)
            self._tell()

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()


def _listen(selector: selectors.BaseSelector, peers: Collection[Peer]) -> None:
    """Listen to those who are there now, and to nobody else."""
    known = {key.data.number: key for key in selector.get_map().values()}
    here = {peer.number for peer in peers}
    for number, key in known.items():
        if number not in here:
            selector.unregister(key.fileobj)
    for peer in peers:
        if peer.number not in known and peer.socket.fileno() >= 0:
            selector.register(peer.socket, selectors.EVENT_READ, peer)


def _go_first() -> None:
    """Let this thread have a core before others, where the system lets it: it hardly needs one, but at once."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), MORE_PRIORITY)
