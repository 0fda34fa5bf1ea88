"""Forward passes in pieces: worked out by hand, and nothing of a task is lost or done twice."""

import pytest
from schedule_cases import random_program

from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate.engine import run
from hyperplace.steps.simulate.gates import gated, whole
from hyperplace.steps.simulate.tasks import Tasks, kind_of, tasks_of
from hyperplace.values.cluster import Cluster, Host
from hyperplace.values.derived.actions import Parcel

UPDATE, FORWARD = (0, "U", 0), (1, "F", 0)
WEIGHT = (0, "w")


def late_weights(into):
    """Part 0 updates for 1 s and sends 10 bytes, 2 s of them on its card; part 1 runs forward for 4 s."""
    return Tasks(
        needs={UPDATE: set(), FORWARD: set()},
        work={UPDATE: 1.0, FORWARD: 4.0},
        parcels=[Parcel(UPDATE, (FORWARD,), 10, into=(into,), weight=WEIGHT)],
        todo=[[(0, UPDATE)], [(0, FORWARD)]],
        delays={WEIGHT: 0},
    )


@pytest.mark.parametrize(
    ("into", "begin", "end"),
    [
        (0.0, 3, 7),  # the first layer needs them: it waits for all of it
        (0.5, 0, 5),  # two seconds of work, a second of waiting, the other two
        (0.55, 0, 5),  # between two grades: as if at the one before
        (0.875, 0, 4),  # they are there before they are needed
    ],
)
def test_a_pass_waits_where_a_layer_needs_new_weights(into, begin, end):
    cluster = Cluster(tuple(Host(name, out_rate=5.0, in_rate=5.0) for name in "ab"))
    spans = whole(run(gated(late_weights(into)), cluster).spans)
    assert spans[0, FORWARD] == pytest.approx((begin, end))


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_lost_or_done_twice(seed):
    program = random_program(seed, True)
    before = tasks_of(program, schedule(program, 3), 4)
    after = gated(before)
    assert sum(after.work.values()) == pytest.approx(sum(before.work.values()))
    for node in before.needs:
        pieces = [one for one in after.needs if (one[0], kind_of(one), one[2]) == node]
        assert sum(after.work[piece] for piece in pieces) == pytest.approx(before.work[node])
    assert [(one.maker, one.num_bytes, one.weight) for one in after.parcels] == [
        (one.maker, one.num_bytes, one.weight) for one in before.parcels
    ]
    for own, cut in zip(before.todo, after.todo, strict=True):
        assert [one for one in cut if one in own] == list(own), "the last piece has the name, in the same order"
    assert whole(run(after).spans).keys() == run(before).spans.keys()
