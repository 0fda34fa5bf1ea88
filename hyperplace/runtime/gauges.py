"""What all parts have done so far, read while they train: nobody waits for it, and nobody is waited for.

Parts of other processes are as they were last heard, with their signs of life.
"""

import json
import time
from contextlib import suppress

from hyperplace.runtime.checkpoints.checkpoint import Trains
from hyperplace.runtime.hosts.processes import GAUGES
from hyperplace.values.reading import Gauge


def read_gauges(trainer: Trains) -> list[Gauge]:
    """Return the gauges of parts here and of those elsewhere that were heard; every process must ask to be heard."""
    sent = trainer.sent_bytes()
    now = time.monotonic()
    own = [
        Gauge(rank.number, now, rank.journal.busy_ns / 1e9, rank.weights.staleness.mean, sent[rank.number])
        for rank in trainer.ranks
    ]
    said = trainer.world.heard(GAUGES, _text(own))
    others = [gauge for number, text in enumerate(said) if number != trainer.world.number for gauge in _parsed(text)]
    return sorted([*own, *others], key=lambda gauge: gauge.part)


def _text(gauges: list[Gauge]) -> str:
    # A beat carries a thousand characters of it, which is some 24 parts of a process.
    rows = [[g.part, round(g.at_s, 3), round(g.busy_s, 3), round(g.staleness, 2), g.sent_bytes] for g in gauges]
    return json.dumps(rows, separators=(",", ":"))


def _parsed(text: str) -> list[Gauge]:
    """Return what another process says; nothing where that has not come, or not whole."""
    with suppress(ValueError, TypeError):
        return [
            Gauge(int(part), float(at), float(busy), float(stale), int(sent))
            for part, at, busy, stale, sent in json.loads(text)
        ]
    return []
