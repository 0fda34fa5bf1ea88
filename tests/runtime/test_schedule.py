"""A schedule is known before anything runs: it never deadlocks, never has too much in flight, and overlaps work."""

import numpy as np
import pytest
from handmade import TWO_LINEARS, ZIGZAG

from hyperplace.runtime.schedule import BACKWARD, FORWARD, dependencies, schedule
from hyperplace.runtime.table import Feed, Keep, Receive, Segment, Send

CHAIN = [part.segments for part in TWO_LINEARS.parts]


def random_parts(seed):
    """Return segment tables as a generator would make them: layers in order, each reading some earlier ones."""
    rng = np.random.default_rng(seed)
    num_parts, num_layers = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    part_of = rng.integers(0, num_parts, num_layers)
    reads = [
        sorted({int(r) for r in rng.integers(0, n, int(rng.integers(1, 3)))} if n else ()) for n in range(num_layers)
    ]
    parts = [[] for _ in range(num_parts)]
    for layer in range(num_layers):
        p = int(part_of[layer])
        takes = [Feed(0, "0:1")] if not reads[layer] else []
        for r in reads[layer]:
            takes.append(Keep(f"v{r}") if part_of[r] == p else Receive(f"v{r}", source=int(part_of[r])))
        targets = {int(part_of[n]) for n in range(num_layers) if layer in reads[n]}
        gives = [Keep(f"v{layer}") if q == p else Send(f"v{layer}", target=q) for q in sorted(targets)]
        parts[p].append(Segment(f"s{layer}", tuple(takes), tuple(gives), (f"v{layer}",), int(rng.integers(0, 50))))
    return parts


def dry_run(parts, rows, num_batches, depth):
    """Run the rows tick by tick, every part in its own order, and return the actions in an order that worked."""
    needs = dependencies(parts)
    todo = [
        [
            (t - a.offset, (p, a.kind, a.segment))
            for t in range(num_batches + depth)
            for a in row
            if 0 <= t - a.offset < num_batches
        ]
        for p, row in enumerate(rows)
    ]
    done, order = set(), []
    while any(todo):
        ready = [
            p
            for p, actions in enumerate(todo)
            if actions and all((actions[0][0], n) in done for n in needs[actions[0][1]])
        ]
        assert ready, f"deadlock before {[actions[0] for actions in todo if actions]}"
        for p in ready:
            done.add(todo[p][0])
            order.append(todo[p].pop(0))
    return order


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_laws_of_a_schedule(seed, in_flight):
    parts = random_parts(seed)
    found = schedule(parts, in_flight)
    for segments, row in zip(parts, found.actions, strict=True):
        wanted = {(kind, s) for kind in (FORWARD, BACKWARD) for s in range(len(segments))}
        assert {(a.kind, a.segment) for a in row} == wanted
        assert len(row) == len(wanted)
        assert all(0 <= a.offset < in_flight for a in row)
    order = dry_run(parts, found.actions, 6, found.depth)
    assert len(order) == 6 * 2 * sum(map(len, parts))
    assert schedule(parts, in_flight) == found


def test_one_mini_batch_in_flight_is_forward_then_backward():
    assert str(schedule(CHAIN, 1)) == "part 0:  F0  B0\npart 1:  F0  B0"
    assert str(schedule([part.segments for part in ZIGZAG.parts], 1)) == "part 0:  F0  F1  B1  B0\npart 1:  F0  B0"


def test_two_in_flight_keep_both_parts_of_a_chain_busy():
    assert str(schedule(CHAIN, 2)) == "part 0:  F0  B0-1\npart 1:  F0  B0"


def test_a_part_holds_no_more_mini_batches_than_its_actions_span():
    found = schedule(CHAIN, 2)
    assert [found.live(part) for part in (0, 1)] == [2, 1]
    assert [schedule(CHAIN, 1).live(part) for part in (0, 1)] == [1, 1]


def test_a_part_without_segments_has_nothing_to_do():
    assert schedule([[], *CHAIN[:0]], 3).actions == ((),)
