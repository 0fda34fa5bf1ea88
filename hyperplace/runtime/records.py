"""What every worker did when, as a timeline."""

from collections.abc import Sequence

from hyperplace.runtime.worker import Worker
from hyperplace.values.timeline import Event, Timeline


def timeline_of(workers: Sequence[Worker]) -> Timeline:
    """Return all that the workers have recorded; time begins with the first event."""
    records = [(worker, record) for worker in workers for record in list(worker.records)]
    begin = min((record[3] for _, record in records), default=0)
    events = [
        Event(
            worker.number,
            kind,
            _label(worker, kind, index),
            batch,
            (start_ns - begin) / 1e3,
            (stop_ns - begin) / 1e3,
        )
        for worker, (kind, index, batch, start_ns, stop_ns) in records
    ]
    return Timeline(len(workers), tuple(events))


def _label(worker: Worker, kind: str, index: int) -> str:
    layers = worker.part.segments[index].layers if worker.part.segments else ()
    if kind == "update" or not layers:
        return kind
    return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"
