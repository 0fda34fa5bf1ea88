"""Predict what a mini-batch takes: Program + Schedule + Cluster -> Prediction."""

from hyperplace.steps.simulate.engine import Outcome, run
from hyperplace.steps.simulate.tasks import enough_batches, iteration_of, steady_period, tasks_of
from hyperplace.values.cluster import Cluster
from hyperplace.values.prediction import Prediction
from hyperplace.values.program import Program
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Schedule
from hyperplace.values.timeline import Event, Timeline

KIND_OF = {FORWARD: "forward", BACKWARD: "backward", UPDATE: "update"}


def simulate(program: Program, schedule: Schedule, cluster: Cluster, *, micro_batches: int | None = None) -> Timeline:
    """Return when every part does what on a cluster; see `predict`."""
    return predict(program, schedule, cluster, micro_batches=micro_batches).timeline


def predict(program: Program, schedule: Schedule, cluster: Cluster, *, micro_batches: int | None = None) -> Prediction:
    """Return what a mini-batch takes once the pipe is full; with `micro_batches` one iteration of the sync schedule."""
    if micro_batches is not None:
        outcome = run(iteration_of(program, schedule, micro_batches, cluster), cluster)
        return _prediction(program, cluster, outcome, outcome.end, num_batches=1)
    num_batches = enough_batches(schedule)
    outcome = run(tasks_of(program, schedule, num_batches, cluster), cluster)
    period = steady_period(outcome.spans, schedule.depth + 1)
    # A first mini-batch that was late, for want of others to wait for, would make it shorter than can be.
    period = max(period, *_busy(program, outcome, num_batches), *(t / num_batches for t in outcome.cards.values()), 0.0)
    return _prediction(program, cluster, outcome, period, num_batches)


def _busy(program: Program, outcome: Outcome, num_batches: int) -> list[float]:
    busy = [0.0] * len(program.parts)
    for (_, node), (begin, end) in outcome.spans.items():
        busy[node[0]] += (end - begin) / num_batches
    return busy


def _prediction(program: Program, cluster: Cluster, outcome: Outcome, seconds: float, num_batches: int) -> Prediction:
    least = max(seconds, 1e-12)
    return Prediction(
        seconds=seconds,
        busy=tuple(busy / least for busy in _busy(program, outcome, num_batches)),
        cards={
            (cluster.hosts[host].name, way): time / num_batches / least
            for (host, way), time in sorted(outcome.cards.items())
        },
        timeline=_timeline(program, outcome),
    )


def _timeline(program: Program, outcome: Outcome) -> Timeline:
    events = [
        Event(part, KIND_OF[kind], program.label(part, KIND_OF[kind], segment), batch, 1e6 * begin, 1e6 * end)
        for (batch, (part, kind, segment)), (begin, end) in outcome.spans.items()
        if kind in KIND_OF
    ]
    return Timeline(len(program.parts), tuple(events), is_predicted=True)
