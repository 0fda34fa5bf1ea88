"""Readings of a run under way, now and then: losses as they become known, and what parts have done since the last one.

A reading takes some microseconds per part and is made twice a second at most, whether somebody looks or not.
"""

import time
from collections.abc import Callable, Sequence

from hyperplace.training.epoch import Snapshot
from hyperplace.values.reading import Gauge, Reading

EVERY_S = 0.5

OnReading = Callable[[Reading], None]


class Meter:
    """Makes the readings of one run; `num_known` mini-batches were known before it began."""

    def __init__(
        self,
        gauges: Callable[[], Sequence[Gauge]],
        on_reading: OnReading,
        *,
        num_known: int = 0,
        every_s: float = EVERY_S,
    ) -> None:
        self._gauges, self._on_reading, self._every_s = gauges, on_reading, every_s
        self._num_known = num_known
        self._begin = self._last = time.monotonic()
        self._losses: list[float] = []
        self._num_rows = 0
        self._before = {gauge.part: gauge for gauge in gauges()}
        self._busy: dict[int, float] = {}

    def add_loss(self, loss: float, num_rows: int) -> None:
        """Take note of a mini-batch whose loss is known."""
        self._num_known += 1
        self._losses.append(loss)
        self._num_rows += num_rows

    def on_step(self, shown: Snapshot) -> None:
        """Make a reading if it is time and a mini-batch has ended since the last."""
        if self._losses and time.monotonic() - self._last >= self._every_s:
            self._read(shown)

    def on_trained(self, shown: Snapshot) -> None:
        """Make a reading of the last mini-batches of an epoch."""
        self._read(shown)

    def on_tested(self, shown: Snapshot) -> None:
        """Make a reading with the accuracy; the time of the test is no time of training."""
        self._last = time.monotonic()
        self._before = {}
        self._read(shown)

    def _read(self, shown: Snapshot) -> None:
        now, gauges = time.monotonic(), self._gauges()
        known = {gauge.part: gauge for gauge in gauges}
        parts = range(max(known, default=-1) + 1)
        for gauge in gauges:
            self._note_busy(gauge)
        reading = Reading(
            epoch=shown.epoch,
            num_batches=self._num_known,
            seconds=now - self._begin,
            losses=tuple(self._losses),
            images_per_s=self._num_rows / (now - self._last) if self._num_rows and now > self._last else None,
            busy=tuple(self._busy.get(part) for part in parts),
            staleness=tuple(known[part].staleness if part in known else None for part in parts),
            moved_bytes=sum(gauge.sent_bytes for gauge in gauges),
            test_accuracy=shown.test_accuracy,
        )
        self._last, self._losses, self._num_rows = now, [], 0
        self._on_reading(reading)

    def _note_busy(self, gauge: Gauge) -> None:
        """Find a part's busy share since it was last heard; one of a new generation counts from nothing."""
        before = self._before.get(gauge.part)
        self._before[gauge.part] = gauge
        if before and gauge.at_s > before.at_s and gauge.busy_s >= before.busy_s:
            # What began before the last reading is counted where it ends.
            self._busy[gauge.part] = min(1.0, (gauge.busy_s - before.busy_s) / (gauge.at_s - before.at_s))
