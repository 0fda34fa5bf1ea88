"""Predict what a mini-batch takes: Program + Schedule + Cluster -> Prediction."""

from hyperplace.steps.simulate.engine import Outcome, run
from hyperplace.steps.simulate.gates import gated, kind_of
from hyperplace.steps.simulate.tasks import enough_batches, iterations_of, steady_period, tasks_of
from hyperplace.values.cluster import Cluster
from hyperplace.values.loans import loans_of
from hyperplace.values.prediction import Prediction
from hyperplace.values.program import Program
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Schedule
from hyperplace.values.timeline import Event, Timeline

KIND_OF = {FORWARD: "forward", BACKWARD: "backward", UPDATE: "update"}


def simulate(program: Program, schedule: Schedule, cluster: Cluster, *, micro_batches: int | None = None) -> Timeline:
    """Return when every part does what on a cluster; see `predict`."""
    return predict(program, schedule, cluster, micro_batches=micro_batches).timeline


def predict(program: Program, schedule: Schedule, cluster: Cluster, *, micro_batches: int | None = None) -> Prediction:
    """Return what a mini-batch takes once the pipe is full; with `micro_batches` by the sync schedule."""
    if micro_batches is not None:
        return _predict_sync(program, schedule, cluster, micro_batches)
    num_batches = enough_batches(schedule)
    outcome = run(gated(tasks_of(program, schedule, num_batches, cluster)), cluster)
    period = steady_period(outcome.spans, schedule.depth + 1)
    return _prediction(program, cluster, outcome, period, num_batches)


def _predict_sync(program: Program, schedule: Schedule, cluster: Cluster, micro_batches: int) -> Prediction:
    """Return what lies between the ends of two mini-batches; the first one had no weights to wait for."""
    count = 3 if loans_of(program) else 2
    outcome = run(gated(iterations_of(program, schedule, micro_batches, count, cluster)), cluster)
    ends = [0.0] * count
    for (batch, _), (_, end) in outcome.spans.items():
        ends[batch // micro_batches] = max(ends[batch // micro_batches], end)
    return _prediction(program, cluster, outcome, ends[-1] - ends[-2], count)


def _busy(program: Program, outcome: Outcome, num_batches: int) -> list[float]:
    busy = [0.0] * len(program.parts)
    for (_, node), (begin, end) in outcome.spans.items():
        busy[node[0]] += (end - begin) / num_batches
    return busy


def _prediction(program: Program, cluster: Cluster, outcome: Outcome, period: float, num_batches: int) -> Prediction:
    busy = _busy(program, outcome, num_batches)
    # A first mini-batch that was late, for want of others to wait for, would make it shorter than can be.
    seconds = max(period, *busy, *(time / num_batches for time in outcome.cards.values()), 0.0)
    least = max(seconds, 1e-12)
    return Prediction(
        seconds=seconds,
        busy=tuple(some / least for some in busy),
        cards={
            (cluster.hosts[host].name, way): time / num_batches / least
            for (host, way), time in sorted(outcome.cards.items())
        },
        timeline=_timeline(program, outcome),
    )


def _timeline(program: Program, outcome: Outcome) -> Timeline:
    events = [
        Event(part, kind, program.label(part, kind, segment), batch, 1e6 * begin, 1e6 * end)
        for (batch, node), (begin, end) in outcome.spans.items()
        for part, segment, kind in ((node[0], node[2], KIND_OF.get(kind_of(node))),)
        if kind is not None
    ]
    return Timeline(len(program.parts), tuple(events), is_predicted=True)
