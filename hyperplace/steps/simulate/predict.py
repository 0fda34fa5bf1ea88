"""Predict what a mini-batch takes: Program + Schedule + Cluster -> Prediction."""

from dataclasses import replace

from hyperplace.steps.simulate.engine import Outcome, run
from hyperplace.steps.simulate.gates import gated
from hyperplace.steps.simulate.tasks import enough_batches, iterations_of, kind_of, steady_period, tasks_of
from hyperplace.values.cluster import Cluster
from hyperplace.values.prediction import Prediction
from hyperplace.values.program import Program
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Schedule
from hyperplace.values.timeline import Event, Timeline

ITERATIONS = 3  # of the synchronous schedule: between the last two it is as between all that would follow
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
    """Return what lies between two mini-batches: from end to end, or where a part takes longer to begin the next.

    The first has no new weights to wait for, and nobody is late for it.
    """
    outcome = run(gated(iterations_of(program, schedule, micro_batches, ITERATIONS, cluster)), cluster)
    ends = [0.0] * ITERATIONS
    begins: dict[tuple[int, int], float] = {}  # by part and mini-batch
    for (batch, node), (begin, end) in outcome.spans.items():
        number = batch // micro_batches
        begins[node[0], number] = min(begins.get((node[0], number), begin), begin)
        ends[number] = max(ends[number], end)
    last = ITERATIONS - 1
    between = [begins[p, last] - begins[p, last - 1] for p in range(len(program.parts)) if (p, last) in begins]
    return _prediction(program, cluster, outcome, max(ends[last] - ends[last - 1], *between, 0.0), ITERATIONS)


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
    """Return what happened; of a pass that waited on its way for weights there are several events."""
    events: list[Event] = []
    for (batch, node), (begin, end) in outcome.spans.items():
        if (kind := KIND_OF.get(kind_of(node))) is None:
            continue
        one = Event(node[0], kind, program.label(node[0], kind, node[2]), batch, 1e6 * begin, 1e6 * end)
        before = events[-1] if events else one
        if replace(before, start_us=one.start_us, end_us=one.end_us) == one and before.end_us == one.start_us:
            events[-1] = replace(before, end_us=one.end_us)
        else:
            events.append(one)
    return Timeline(len(program.parts), tuple(events), is_predicted=True)
