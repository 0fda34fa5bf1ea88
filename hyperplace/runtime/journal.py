"""What a rank did when, and what it is doing now."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hyperplace.values.program import Program
from hyperplace.values.timeline import Event, Timeline

T = TypeVar("T")
Record = tuple[str, int, int, int, int]  # kind, segment, mini-batch, start and end in ns


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
        self.busy_ns = 0  # so far; others read it at any time

    def shifted(self, by_ns: int) -> list[Record]:
        """Return all notes by a clock that shows so much more."""
        return [(kind, segment, batch, start + by_ns, end + by_ns) for kind, segment, batch, start, end in self.records]

    def begin(self, what: str, segment: int, batch: int) -> None:
        self.now = Doing(what, segment, batch)

    def timed(self, kind: str, work: Callable[[], T]) -> T:
        """Do some work of what is at hand, and note how long it took; predictions have no number and are left out."""
        now = self.now
        if now.batch < 0:
            return work()
        start = time.perf_counter_ns()
        result = work()
        end = time.perf_counter_ns()
        self.busy_ns += end - start
        if self._is_kept:
            self.records.append((kind, now.segment, now.batch, start, end))
        return result


def timeline_of(program: Program, records_of: Mapping[int, Sequence[Record]]) -> Timeline:
    """Return all that the ranks have noted, by part; time begins with the first event."""
    records = [(part, record) for part, noted in sorted(records_of.items()) for record in noted]
    begin = min((record[3] for _, record in records), default=0)
    events = [
        Event(part, kind, program.label(part, kind, index), batch, (start_ns - begin) / 1e3, (stop_ns - begin) / 1e3)
        for part, (kind, index, batch, start_ns, stop_ns) in records
    ]
    return Timeline(len(program.parts), tuple(events))
