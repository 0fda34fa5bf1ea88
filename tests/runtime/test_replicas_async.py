"""With several mini-batches in flight, copies of weights train as the schedule and the delays say, update by update."""

import re

import pytest
import torch
from handmade import Recorder
from replica_programs import (
    LR,
    Layer,
    data,
    data_parallel,
    num_parts_of,
    output_of,
    random_layers,
    squared,
    trainer_of,
    weights_of,
)
from schedule_cases import times_of

# Row-split beginning and end, with a layer in between that one part has alone.
MIXED = (Layer((0, 1), 0, 6), Layer((2,), 2, 12), Layer((1, 2), 1, 6))
# Part 1 lends to 0 what 0 needs first, and part 2 owns what it does not use.
CROSSED = (Layer((0, 1), 1, 4), Layer((1, 0, 2), 0, 4), Layer((0, 1), 2, 8))
# Two parts with copies of each other's, and a layer alone in turn.
IN_TURN = (Layer((0, 1), 0, 6), Layer((0,), 0, 12), Layer((1,), 1, 12), Layer((0, 1), 1, 6))
PROGRAMS = {
    "two": data_parallel(2),
    "three": data_parallel(3),
    "mixed": MIXED,
    "crossed": CROSSED,
    "in turn": IN_TURN,
}
OVERLAPPING = [name for name in PROGRAMS if name != "two"]  # two that do the same are busy all the time as it is


def rows_of(schedule):
    """Return the printed schedule as lists of (kind, segment, offset)."""
    rows = []
    for line in str(schedule).splitlines():
        found = re.findall(r"([FBU])(\d*)(?:-(\d+))?", line.split(":")[1])
        rows.append([(kind, int(segment or 0), int(offset or 0)) for kind, segment, offset in found])
    return rows


def delay_of(layers, n, trainer):
    """Return after how many ticks an update of a layer's weight is seen, from the times of the schedule."""
    spans, period = times_of(trainer.program, trainer.settings.in_flight)
    layer = layers[n]
    relays = {p: layer.relay(p) for p in layer.users if p != layer.owner}
    times = [
        (
            spans[layer.owner, "U", 0][1] if relays.get(p) is None else spans[relays[p], "P", 0][1],
            spans[p, "F", segment_of(layers, n, p)][0],
        )
        for p in layer.users
    ]
    delay = 1
    while delay <= trainer.schedule.depth and any(end > start + delay * period * (1 + 1e-12) for end, start in times):
        delay += 1
    return delay


def segment_of(layers, n, part):
    return sum(part in layer.users for layer in layers[:n])


def lenders_of(layers):
    return {layer.owner for layer in layers if set(layer.users) != {layer.owner}}


def seen_versions(layers, trainer, ticks):
    """Return for every layer and mini-batch how many updates the weight had had that it saw."""
    rows, seen = rows_of(trainer.schedule), []
    for n, layer in enumerate(layers):
        if set(layer.users) != {layer.owner}:
            delay = delay_of(layers, n, trainer)
            seen.append([sum(other <= tick - delay for other in ticks) for tick in ticks])
            continue
        row = rows[layer.owner]
        kind = "U" if layer.owner in lenders_of(layers) else "B"
        updated = max((offset, place) for place, (k, _, offset) in enumerate(row) if k == kind)
        forward = next(
            (offset, place)
            for place, (k, s, offset) in enumerate(row)
            if (k, s) == ("F", segment_of(layers, n, layer.owner))
        )
        seen.append(
            [
                sum((other + updated[0], updated[1]) < (tick + forward[0], forward[1]) for other in ticks)
                for tick in ticks
            ]
        )
    return seen


def simulated(layers, trainer, ticks, batches):
    """Return every layer's weight after 0, 1, 2 ... updates: no threads, no parts, no messages."""
    seen = seen_versions(layers, trainer, ticks)
    history = [[tensor] for tensor in weights_of(layers).values()]
    for b, (x, y) in enumerate(batches):
        leaves = [history[n][seen[n][b]].clone().requires_grad_() for n in range(len(layers))]
        squared(output_of(leaves, x), y).backward()
        for n, leaf in enumerate(leaves):
            history[n].append(history[n][-1] - LR * leaf.grad)
    return history, seen


def watch(trainer):
    """Return what is to hold, by layer and mini-batch, the weights every part saw in its segments."""
    leaves = {}
    for rank in trainer.ranks:

        def call(live, index, arguments, rank=rank, before=rank.segments._call):
            results = before(live, index, arguments)
            for name in trainer.program.parts[rank.number].weights_of(index):
                leaves.setdefault((name, live.batch.number), []).append(getattr(rank.part, name).detach().clone())
            return results

        rank.segments._call = call
    return leaves


def run(layers, batches, pauses=(), **settings):
    """Train, letting the pipe run dry after some mini-batches; return all there is to know."""
    histories, ticks, tick = [], [], 0

    def optimizer(parameters):
        histories.append([])
        return Recorder(parameters, histories[-1], LR)

    with trainer_of(layers, optimizer=optimizer, **settings) as trainer:
        leaves, losses = watch(trainer), []
        for number, (x, y) in enumerate(batches):
            losses.append(trainer.step(x, y))
            ticks.append(tick)
            tick += 1
            if number in pauses:
                trainer.flush()
                tick += trainer.schedule.depth
        trainer.flush()
        state = trainer.state_dict()
    owners = sorted({layer.owner for layer in layers})
    updates = dict(zip(owners, histories, strict=True))
    return trainer, ticks, updates, leaves, state, [loss.item() for loss in losses]


def assert_equals_simulation(layers, trainer, ticks, updates, batches):
    wanted, seen = simulated(layers, trainer, ticks, batches)
    for owner, history in updates.items():
        owned = [n for n, layer in enumerate(layers) if layer.owner == owner]
        assert len(history) == len(batches)
        for step, found in enumerate(history):
            for n, tensor in zip(owned, found, strict=True):
                assert torch.allclose(tensor, wanted[n][step + 1], rtol=0, atol=1e-12), f"layer {n}, update {step}"
    return wanted, seen


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_update_is_that_of_a_simulation_written_out(name, in_flight):
    layers, batches = PROGRAMS[name], data(11)
    trainer, ticks, updates, leaves, _, _ = run(layers, batches, (3, 7), in_flight=in_flight)
    wanted, seen = assert_equals_simulation(layers, trainer, ticks, updates, batches)
    for (weight, batch), found in leaves.items():
        n = int(weight[1:])
        version = wanted[n][seen[n][batch]]
        assert len(found) == len(layers[n].users), "as often as the weight is used"
        assert all(torch.equal(one, found[0]) for one in found), "all replicas see one version"
        assert torch.allclose(found[0], version, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["two", "three", "crossed"])
def test_weights_with_copies_are_stashed_in_any_case(name):
    layers, batches = PROGRAMS[name], data(11)
    trainer, ticks, updates, *_ = run(layers, batches, in_flight=3, stash=False)
    assert_equals_simulation(layers, trainer, ticks, updates, batches)


@pytest.mark.parametrize("in_flight", [3, 4])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_several_in_flight_see_older_weights_than_one_after_the_other(name, in_flight):
    layers = PROGRAMS[name]
    trainer, ticks, *_ = run(layers, data(8), in_flight=in_flight)
    seen = seen_versions(layers, trainer, ticks)
    assert any(version < batch for row in seen for batch, version in enumerate(row))
    lenders = lenders_of(layers)
    for part, staleness in enumerate(trainer.staleness):
        assert sum(staleness.counts.values()) == 8
        used = [n for n, layer in enumerate(layers) if part in layer.users]
        wanted = [max(batch - seen[n][batch] for n in used) for batch in range(8)] if used else []
        assert sorted(wanted) == sorted(k for k, count in staleness.counts.items() for _ in range(count)), part
    assert {p for p, row in enumerate(rows_of(trainer.schedule)) if any(k == "U" for k, _, _ in row)} == lenders


@pytest.mark.parametrize("in_flight", [2, 3, 4])
def test_nobody_sees_older_weights_where_all_are_busy_without(in_flight):
    layers = PROGRAMS["two"]
    trainer, ticks, *_ = run(layers, data(8), in_flight=in_flight)
    assert all(row == list(range(8)) for row in seen_versions(layers, trainer, ticks))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_run_twice_gives_the_same_bits_with_copies(name):
    (*_, state, losses), (*_, again, losses_again) = (run(PROGRAMS[name], data(20), in_flight=4) for _ in range(2))
    assert losses == losses_again
    assert all(torch.equal(state[n], again[n]) for n in state)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(50))
def test_random_programs_run_to_the_end_as_simulated(seed):
    layers, batches = random_layers(seed), data(9)
    in_flight = 1 + seed % 5
    trainer, ticks, updates, *_ = run(layers, batches, (4,), in_flight=in_flight)
    assert_equals_simulation(layers, trainer, ticks, updates, batches)
    assert len(trainer.ranks) == num_parts_of(layers)
