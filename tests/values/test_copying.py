"""What parts copy in memory: what a running trainer moves, and cases worked out by hand."""

from dataclasses import replace

import pytest
import torch
from handmade import TWO_LINEARS, ZIGZAG, batches, squared, state_of
from replica_programs import data_parallel, program_of

from hyperplace.runtime import RunSettings, Trainer, Training
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import predict
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.derived.actions import closing_of, needs_of
from hyperplace.values.derived.copying import ADDED, copied_bytes
from hyperplace.values.program import Copy

STEPS = 12


def moved(made, in_flight):
    """Return the bytes of weights that every part's updates moved to new memory, mini-batch by mini-batch."""
    settings = RunSettings("async", in_flight)
    training = Training(lambda parameters: torch.optim.SGD(parameters, lr=0.01))
    found = [[] for _ in made.program.parts]
    with Trainer(made, state_of(made), training=training, loss=squared, settings=settings) as trainer:
        for rank, some in zip(trainer.ranks, found, strict=True):
            rank.weights.update = watched(rank.weights, some)
        for x, y in batches(STEPS):
            trainer.step(x, y)
        trainer.flush()
    return found


def watched(weights, found):
    update = weights.update

    def noted(version=None):
        before = {name: one.data_ptr() for name, one in weights.parameters.items()}
        update(version)
        found.append(sum(one.nbytes for name, one in weights.parameters.items() if one.data_ptr() != before[name]))

    return noted


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4])
@pytest.mark.parametrize("made", [TWO_LINEARS, ZIGZAG], ids=["two linears", "zigzag"])
def test_weights_that_move_are_those_that_move_in_a_run(made, in_flight):
    order, found = schedule(made.program, in_flight), moved(made, in_flight)
    copied = copied_bytes(made.program, order, needs_of(made.program, is_sync=True))
    steady = slice(in_flight, STEPS - in_flight)  # at the end nothing later is under way any more
    for p, some in enumerate(found):
        twice = 2 * sum(bytes_ for node, bytes_ in copied.items() if node[0] == p)  # pieces say float32
        assert set(some[steady]) == {twice}


def test_some_of_them_move():
    copied = copied_bytes(ZIGZAG.program, schedule(ZIGZAG.program, 4), needs_of(ZIGZAG.program, is_sync=True))
    assert sum(copied.values()) > 0


def test_copies_of_weights_by_hand():
    """Both parts have both layers; part 0 owns the first, part 1 the second."""
    program = program_of(data_parallel(2)).program
    copied = copied_bytes(program, schedule(program, 3), needs_of(program))
    for p, part in enumerate(program.parts):
        (own,) = (one.num_bytes for one in part.weights.values() if not isinstance(one, Copy))
        (given,) = (one.num_bytes for one in program.parts[1 - p].weights.values() if isinstance(one, Copy))
        assert copied[p, "U", 0] == own + ADDED * given, "a snapshot, and the other's gradient"
        assert copied[p, "F", 0] == 0, "nobody has a weight in pieces"


def test_micro_batches_add_their_gradients_up():
    program = TWO_LINEARS.program
    nodes = [*needs_of(program, is_sync=True), *closing_of(program)]
    one, four = (copied_bytes(program, schedule(program, m, is_sync=True), nodes, micro_batches=m) for m in (1, 4))
    assert not any(one.values()), "nothing is under way when parts update, and nothing is added up"
    sizes = [piece.num_bytes for part in program.parts for piece in part.weights.values()]
    assert [4 * four[p, "B", 0] for p in range(2)] == [ADDED * 3 * size for size in sizes]


def test_a_prediction_takes_what_copying_takes():
    program = replace(ZIGZAG.program, unit="us")
    order = schedule(program, 4)
    still, slow = (Cluster((Host("a", (Device(copy_s_per_byte=pace),) * 2),)) for pace in (None, 1e-6))
    copied = copied_bytes(program, order, needs_of(program, is_sync=True))
    busiest = max(sum(size for node, size in copied.items() if node[0] == p) for p in range(2))
    more = predict(program, order, slow).seconds - predict(program, order, still).seconds
    assert 0 < more <= 1e-6 * sum(copied.values()) * 1.01
    assert more >= 1e-6 * busiest * 0.5
