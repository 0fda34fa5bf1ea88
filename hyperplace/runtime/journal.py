"""What a rank did when, and what it is doing now."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hyperplace.values.program import Program
from hyperplace.values.timeline import WAIT, Event, Timeline

T = TypeVar("T")
Record = tuple[str, int, int, int, int]  # kind, segment, mini-batch, start and end in ns
LEAST_WAIT_NS = 1_000_000  # within other work: what is shorter is not worth cutting that in two


@dataclass(frozen=True)
class Doing:
    """What a rank is at: forward, backward, loss, update or load; of which segment and mini-batch."""

    what: str = ""
    segment: int = 0
    batch: int = 0


class Journal:
    """One rank's notes: how long it was busy in all, and every event where a timeline is wanted."""

    def __init__(self, *, is_kept: bool) -> None:
        self._is_kept = is_kept
        self.now = Doing()
        self.records: list[Record] = []
        self.busy_ns = 0  # so far, without waiting; others read it at any time
        self._working = ""  # the kind of work that is being timed
        self._since_ns = 0  # when that began, or went on after a wait

    def shifted(self, by_ns: int) -> list[Record]:
        """Return all notes by a clock that shows so much more."""
        return [(kind, segment, batch, start + by_ns, end + by_ns) for kind, segment, batch, start, end in self.records]

    def begin(self, what: str, segment: int, batch: int) -> None:
        self.now = Doing(what, segment, batch)

    def timed(self, kind: str, work: Callable[[], T]) -> T:
        """Do some work of what is at hand, and note how long it took; predictions have no number and are left out."""
        if self.now.batch < 0:
            return work()
        now, self._working, self._since_ns = self.now, kind, time.perf_counter_ns()
        try:
            result = work()
        finally:
            self._working = ""
        self._note(kind, now, self._since_ns, time.perf_counter_ns())
        return result

    def waited(self, work: Callable[[], T]) -> T:
        """Do what may wait for others, and note it as a wait; where other work is being timed, it cuts that in two."""
        start = time.perf_counter_ns()
        result = work()
        end = time.perf_counter_ns()
        if self.now.batch < 0 or (self._working and end - start < LEAST_WAIT_NS):
            return result
        if self._working:
            self._note(self._working, self.now, self._since_ns, start)
            self._since_ns = end
        self._note(WAIT, self.now, start, end)
        return result

    def _note(self, kind: str, doing: Doing, start: int, end: int) -> None:
        if kind != WAIT:
            self.busy_ns += end - start
        if self._is_kept:
            self.records.append((kind, doing.segment, doing.batch, start, end))


def timeline_of(program: Program, records_of: Mapping[int, Sequence[Record]]) -> Timeline:
    """Return all that the ranks have noted, by part; time begins with the first event."""
    records = [(part, record) for part, noted in sorted(records_of.items()) for record in noted]
    begin = min((record[3] for _, record in records), default=0)
    events = [
        Event(part, kind, program.label(part, kind, index), batch, (start_ns - begin) / 1e3, (stop_ns - begin) / 1e3)
        for part, (kind, index, batch, start_ns, stop_ns) in records
    ]
    return Timeline(len(program.parts), tuple(events))
