"""What every part did and when: measured by the runtime or predicted by a simulation, the same value for both.

Times are microseconds from any origin that all parts share. A part does one thing at a time, so its events do not
overlap; where it has no event it is idle.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.drawn import Drawn

Mask = NDArray[np.bool_]

WAIT = "wait"
MOST_PARTS = 2**20  # more is a broken file, and an array of them would fill the memory
MOST_US = 2.0**53  # some 285 years; beyond it times are no whole microseconds, and their sums not finite
KINDS = ("forward", "recompute", "backward", "update", "loss", WAIT)
ROUND_OFF_US = 1e-3  # events this close do not overlap: a sum of durations is no clock


@dataclass(frozen=True)
class Event:
    """One thing a part did for one mini-batch; `wait` is blocked until a message arrives."""

    part: int
    kind: str
    name: str  # of the segment, as the model calls it: any text
    batch: int
    start_us: float
    end_us: float


@dataclass(frozen=True, repr=False)
class Timeline(Drawn):
    """The events of all parts, in any order."""

    num_parts: int
    events: tuple[Event, ...]
    is_predicted: bool = False

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise HyperplaceError("not a timeline: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        """Yield a fault of each sort, with the first event that has it."""
        if not 1 <= self.num_parts <= MOST_PARTS:
            yield f"it has {self.num_parts} parts"
            return
        parts = range(self.num_parts)
        checks = {
            f"is outside parts 0..{self.num_parts - 1}": [event.part not in parts for event in self.events],
            f"is none of {', '.join(KINDS)}": [event.kind not in KINDS for event in self.events],
            "has a negative mini-batch": [event.batch < 0 for event in self.events],
            f"has a time that is no number up to {MOST_US:g}": list(
                ~((np.abs(self._starts) <= MOST_US) & (np.abs(self._ends) <= MOST_US))
            ),
            "ends before it starts": list(self._ends < self._starts),
        }
        wrong = {fault: flags.index(True) for fault, flags in checks.items() if True in flags}
        if not wrong and (overlaps := self._overlaps()).any():
            wrong["starts before the one before it on its part has ended"] = int(overlaps.argmax())
        yield from (f"{self.events[index]} {fault}" for fault, index in wrong.items())

    def _overlaps(self) -> Mask:
        """Mark the events that start before the one before them on their part has ended."""
        order = np.lexsort((self._ends, self._starts, self._parts))
        parts, starts, ends = self._parts[order], self._starts[order], self._ends[order]
        wrong = np.zeros(len(order), bool)
        wrong[order[1:]] = (parts[1:] == parts[:-1]) & (starts[1:] < ends[:-1] - ROUND_OFF_US)
        return wrong

    def __repr__(self) -> str:
        made = "predicted" if self.is_predicted else "measured"
        return (
            f"Timeline({made}, {self.num_parts} parts, {len(self.events):,} events of {len(self.batches)} "
            f"mini-batches in {self.span_us / 1e3:,.1f} ms, bubble {100 * float(self.bubble.mean()):.1f}%)"
        )

    @cached_property
    def _parts(self) -> Ints:
        return np.array([event.part for event in self.events], np.int64)

    @cached_property
    def _starts(self) -> Floats:
        return np.array([event.start_us for event in self.events], np.float64)

    @cached_property
    def _ends(self) -> Floats:
        return np.array([event.end_us for event in self.events], np.float64)

    @cached_property
    def _is_wait(self) -> Mask:
        return np.array([event.kind == WAIT for event in self.events], bool)

    @property
    def start_us(self) -> float:
        return float(self._starts.min()) if self.events else 0.0

    @property
    def end_us(self) -> float:
        return float(self._ends.max()) if self.events else 0.0

    @property
    def span_us(self) -> float:
        """From the first start to the last end, of all parts."""
        return self.end_us - self.start_us

    @property
    def batches(self) -> tuple[int, ...]:
        """The mini-batches anything was computed for, ascending."""
        return tuple(sorted({event.batch for event in self.events if event.kind != WAIT}))

    @property
    def batches_per_part(self) -> Ints:
        """How many mini-batches each part computed anything for."""
        pairs = {(event.part, event.batch) for event in self.events if event.kind != WAIT}
        return np.bincount([part for part, _ in pairs], minlength=self.num_parts).astype(np.int64)

    @property
    def busy_us(self) -> Floats:
        """What each part spent in events other than waits."""
        return self._sum_per_part(~self._is_wait)

    @property
    def waiting_us(self) -> Floats:
        """What each part was blocked for."""
        return self._sum_per_part(self._is_wait)

    @property
    def idle_us(self) -> Floats:
        """What is left of the span on each part."""
        return np.maximum(self.span_us - self.busy_us - self.waiting_us, 0.0)

    @property
    def bubble(self) -> Floats:
        """The share of the span in which each part computed nothing, 0 .. 1; 0 where there is no span."""
        if not self.span_us:
            return np.zeros(self.num_parts)
        return np.clip(1 - self.busy_us / self.span_us, 0.0, 1.0)

    @property
    def crowding(self) -> float:
        """The share of the other parts that is at work while one is: 0 where they take turns, 1 side by side."""
        works = ~self._is_wait
        times = np.concatenate([self._starts[works], self._ends[works]])
        steps = np.repeat([1, -1], works.sum())
        order = np.argsort(times, kind="stable")
        at_work, lengths = np.cumsum(steps[order])[:-1], np.diff(times[order])
        busy = float((at_work * lengths).sum())
        if self.num_parts == 1 or not busy:
            return 0.0
        return float((at_work * (at_work - 1) * lengths).sum()) / busy / (self.num_parts - 1)

    def _sum_per_part(self, chosen: Mask) -> Floats:
        durations = (self._ends - self._starts)[chosen]
        sums: Floats = np.zeros(self.num_parts)
        np.add.at(sums, self._parts[chosen], durations)
        return sums

    def between(self, start_batch: int, stop_batch: int) -> "Timeline":
        """Return the time from the first work on one mini-batch to the first on another, events cut at both ends.

        In the steady state that is what `stop_batch - start_batch` mini-batches cost, whatever else is in flight. Where
        there is no such mini-batch the time goes from the beginning, or to the end.
        """
        low = self._first_start_us(start_batch, self.start_us)
        return self.cut(low, self._first_start_us(stop_batch, self.end_us))

    def cut(self, start_us: float, end_us: float) -> "Timeline":
        """Return what happened from one time to another; an event that reaches beyond is cut off there."""
        inside = (
            replace(event, start_us=max(event.start_us, start_us), end_us=min(event.end_us, end_us))
            for event in self.events
            if max(event.start_us, start_us) < min(event.end_us, end_us)
        )
        return replace(self, events=tuple(inside))

    def _first_start_us(self, batch: int, default: float) -> float:
        starts = (event.start_us for event in self.events if event.batch == batch and event.kind != WAIT)
        return min(starts, default=default)
