"""The workers of all hosts from the bench's side: started together, asked together, ended together.

A rank that fails leaves the others waiting for it, so after any fault all are ended, and the next job finds new ones.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from hyperplace.bench.cores import Seat
from hyperplace.bench.jobs import Job, Reply, Start, line_of
from hyperplace.bench.netns import Host
from hyperplace.errors import HyperplaceError

PORT = 29500  # of the first rank's store, where its host is its own
GRACE_S = 2.0  # for what the other ranks say about a fault: theirs may be the cause
CHUNK = 1 << 16


class WorkerFault(HyperplaceError):
    """A worker failed, died or fell silent; all have been ended."""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    errors: Path
    unread: bytearray = field(default_factory=bytearray)

    @property
    def replies(self) -> int:
        """The pipe that its replies come from."""
        assert self.process.stdout
        return self.process.stdout.fileno()

    def take_line(self) -> str | None:
        """Return a whole line that has been read, if there is one."""
        end = self.unread.find(b"\n")
        if end < 0:
            return None
        line, self.unread = self.unread[:end].decode(), self.unread[end + 1 :]
        return line

    def last_words(self) -> str:
        """Say how it ended, with the last line it wrote."""
        code = self.process.poll()
        lines = self.errors.read_text(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return f"ended with {how}" + (f": {said[:200]}" if said else "")


class Workers:
    """One process per host; in a `with` block, so that they end."""

    def __init__(self, hosts: Sequence[Host], seats: Sequence[Seat], start: Start, folder: Path) -> None:
        self._hosts, self._seats, self._start, self._folder = hosts, seats, start, folder
        self.silence_s = start.silence_s  # who says nothing for so long hangs
        self._workers: list[_Worker] = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def ask(self, job: Job, num_ranks: int) -> list[Reply]:
        """Let the first so many ranks do a job, and return their replies."""
        if not self._workers:
            self._begin()
        asked = self._workers[:num_ranks]
        for worker in asked:
            with suppress(OSError):  # it is dead, and reading from it will tell
                assert worker.process.stdin
                worker.process.stdin.write(line_of(job).encode())
                worker.process.stdin.flush()
        return self._replies(asked)

    def _begin(self) -> None:
        port = PORT if self._hosts[0].enter else _free_port()
        for rank, seat in enumerate(self._seats):
            self._workers.append(self._started(rank, port))
            seat.take(self._workers[-1].process.pid)
        self._replies(self._workers)

    def _started(self, rank: int, port: int) -> _Worker:
        host, errors = self._hosts[rank], self._folder / f"rank{rank}.txt"
        words = {
            "RANK": rank,
            "WORLD_SIZE": len(self._hosts),
            "LOCAL_RANK": 0,
            "GROUP_RANK": rank,
            "MASTER_ADDR": self._hosts[0].address,
            "MASTER_PORT": port,
            "GLOO_SOCKET_IFNAME": host.interface,
            "OMP_NUM_THREADS": 1,
        }
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [*host.enter, sys.executable, "-m", "hyperplace.bench.worker", line_of(self._start).strip()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | {name: str(word) for name, word in words.items()},
                start_new_session=True,  # Ctrl-C is for the bench, which ends its workers
            )
        return _Worker(process, errors)

    def _replies(self, asked: Sequence[_Worker]) -> list[Reply]:
        """Wait until all have replied; if any cannot, say why after all have been ended."""
        replies: dict[int, Reply] = {}
        faults: dict[int, str] = {}
        deadline = time.monotonic() + self.silence_s
        while len(replies) + len(faults) < len(asked):
            waiting = [rank for rank in range(len(asked)) if rank not in replies | faults]
            if not self._read(asked, waiting, deadline - time.monotonic()):
                break
            for rank in waiting:
                _sort_in(rank, asked[rank], replies, faults)
            if faults:
                deadline = min(deadline, time.monotonic() + GRACE_S)
        if not faults and len(replies) < len(asked):
            silent = next(rank for rank in range(len(asked)) if rank not in replies)
            faults[silent] = f"said nothing for {self.silence_s:g} s"
        if faults:
            # A rank that is dead is why the others fail, though they may say so first.
            rank = min(faults, key=lambda rank: asked[rank].process.returncode is None)
            self.end()
            raise WorkerFault(f"host {rank} {faults[rank]}")
        return [replies[rank] for rank in range(len(asked))]

    @staticmethod
    def _read(asked: Sequence[_Worker], waiting: Sequence[int], limit_s: float) -> bool:
        """Read what there is from any of the ranks; False if there is nothing in time."""
        worker_of = {asked[rank].replies: asked[rank] for rank in waiting}
        ready, _, _ = select.select(list(worker_of), [], [], max(limit_s, 0))
        for pipe in ready:
            chunk = os.read(pipe, CHUNK)
            worker_of[pipe].unread += chunk
            if not chunk:  # closed: it has ended, or will at once
                worker_of[pipe].process.wait()
        return bool(ready)

    def end(self) -> None:
        """End all workers, whatever they do."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.wait()
            for pipe in (worker.process.stdin, worker.process.stdout):
                with suppress(OSError):  # a line is left for a dead one
                    assert pipe
                    pipe.close()
        self._workers = []


def _sort_in(rank: int, worker: _Worker, replies: dict[int, Reply], faults: dict[int, str]) -> None:
    line = worker.take_line()
    if line is not None:
        reply = Reply.parse(line)
        if reply.fault:
            faults[rank] = f"failed: {reply.fault}"
        else:
            replies[rank] = reply
    elif worker.process.returncode is not None:
        faults[rank] = worker.last_words()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
