"""Asynchronous training equals a simulation written out by hand, weight for weight."""

import numpy as np
import pytest
import torch
from handmade import TWO_LINEARS, ZIGZAG, Recorder, batches, squared, state_of

from hyperplace.runtime import RunSettings, Trainer, Training

LR = 0.05


def trainer_of(made, *, stash=True, in_flight=2, optimizer=None, **settings):
    training = Training(optimizer or (lambda ps: torch.optim.SGD(ps, lr=LR)), stash=stash)
    chosen = RunSettings("async", in_flight, **settings)
    return Trainer(made, state_of(made), training=training, loss=squared, settings=chosen)


def written_out(num_batches):
    """Return the weights after every update of the two linears, two mini-batches in flight.

    Part 0 runs F0 then B0-1: the forward of mini-batch b sees its weights after update b - 2, its backward comes after
    the forward of b + 1. Part 1 runs F0 then B0: mini-batch b sees its weights after update b - 1.
    """
    state = {name: tensor.numpy().copy() for name, tensor in state_of(TWO_LINEARS).items()}
    first, second = state["first"], state["second"]
    data = [(x.numpy(), y.numpy()) for x, y in batches(num_batches)]
    firsts, seconds, waiting = [], [], None
    for x, y in [*data, (None, None)]:
        gradient_1 = None
        if x is not None:
            seen = first.copy()  # the forward of this mini-batch, before the update by the one before
            h = x @ seen.T
            out = h @ second.T
            g_out = 2 * (out - y) / out.size
            g_h = g_out @ second
            gradient_1 = g_out.T @ h
        if waiting is not None:
            old_x, old_g_h = waiting
            first = first - LR * old_g_h.T @ old_x
            firsts.append(first.copy())
        if x is not None:
            waiting = (x, g_h)
            second = second - LR * gradient_1
            seconds.append(second.copy())
    return firsts, seconds


def test_two_in_flight_see_the_weights_the_schedule_says():
    firsts, seconds = written_out(7)
    for steps in range(1, 8):
        with trainer_of(TWO_LINEARS) as trainer:
            for x, y in batches(7)[:steps]:
                trainer.step(x, y)
            state = trainer.state_dict()
        # A run of n mini-batches ends with a flush, which changes nothing for those before.
        assert np.allclose(state["first"], written_out(steps)[0][-1], rtol=0, atol=1e-14)
        assert np.allclose(state["second"], seconds[steps - 1], rtol=0, atol=1e-14)
    assert len(firsts) == len(seconds) == 7


def zigzag_simulation(num_batches, schedule):
    """Return part 0's and part 1's weights after every update, by following the schedule with plain autograd.

    The simulation has no threads, messages or segments: a mini-batch is one graph over copies of the weights as each of
    its three layers sees them, and gradients are asked for when the schedule says so.
    """
    weights = {name: tensor.clone() for name, tensor in state_of(ZIGZAG).items()}
    part_of, history = {"a": 0, "c": 0, "b": 1}, {0: [], 1: []}
    data, seen, order = batches(num_batches), {}, []
    depth = schedule.depth
    for tick in range(num_batches + depth):
        for part, row in enumerate(schedule.actions):
            order += [
                (tick, part, a.kind, a.segment, tick - a.offset) for a in row if 0 <= tick - a.offset < num_batches
            ]
    # Any order that respects what each action needs is right; bring part 1's forward between part 0's two.
    pending, done = order, set()
    needed = {
        (0, "F", 1): [(1, "F", 0)], (1, "F", 0): [(0, "F", 0)], (0, "B", 1): [(0, "F", 1)],
        (1, "B", 0): [(0, "B", 1)], (0, "B", 0): [(1, "B", 0)], (0, "F", 0): [],
    }  # fmt: skip
    backward_done = {}
    while pending:
        blocked = set()
        for item in list(pending):
            _, part, kind, segment, b = item
            if part in blocked:
                continue
            if not all((p, k, s, b) in done for p, k, s in needed[part, kind, segment]):
                blocked.add(part)
                continue
            pending.remove(item)
            done.add((part, kind, segment, b))
            if kind == "F":
                name = {(0, 0): "a", (0, 1): "c", (1, 0): "b"}[part, segment]
                seen[b, name] = weights[name].clone()
                continue
            backward_done[b, part] = backward_done.get((b, part), 0) + 1
            if backward_done[b, part] == (2 if part == 0 else 1):
                gradients = zigzag_gradients(data[b], {n: seen[b, n] for n in part_of})
                for name in part_of:
                    if part_of[name] == part:
                        weights[name] = weights[name] - LR * gradients[name]
                history[part].append([weights[n].clone() for n in part_of if part_of[n] == part])
    return history


def zigzag_gradients(batch, seen):
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in seen.items()}
    x, y = batch
    u = x @ leaves["a"]
    out = (u + torch.tanh(u @ leaves["b"])) @ leaves["c"]
    squared(out, y).backward()
    return {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4])
def test_parts_that_need_each_other_see_the_weights_the_schedule_says(in_flight):
    histories = []

    def optimizer(parameters):
        histories.append([])
        return Recorder(parameters, histories[-1], LR)

    with trainer_of(ZIGZAG, in_flight=in_flight, optimizer=optimizer) as trainer:
        for x, y in batches(9):
            trainer.step(x, y)
        trainer.flush()
        wanted = zigzag_simulation(9, trainer.schedule)
    for part, history in enumerate(histories):
        assert len(history) == len(wanted[part]) == 9
        for step, (found, expected) in enumerate(zip(history, wanted[part], strict=True)):
            for one, other in zip(found, expected, strict=True):
                assert torch.allclose(one, other, rtol=0, atol=1e-13), f"part {part}, update {step}"


def test_staleness_is_measured():
    with trainer_of(TWO_LINEARS, in_flight=2) as trainer:
        for x, y in batches(6):
            trainer.step(x, y)
        trainer.flush()
        assert trainer.staleness[0].counts == {0: 1, 1: 5}  # the first mini-batch finds an empty pipe
        assert trainer.staleness[1].counts == {0: 6}


def test_without_stashing_the_backward_pass_sees_newer_weights():
    def final(stash):
        with trainer_of(ZIGZAG, in_flight=3, stash=stash) as trainer:
            for x, y in batches(9):
                trainer.step(x, y)
            return trainer.state_dict()

    with_stash, without = final(True), final(False)
    assert any(not torch.equal(with_stash[name], without[name]) for name in with_stash)


def test_the_same_run_twice_gives_the_same_bits():
    def final():
        with trainer_of(ZIGZAG, in_flight=4) as trainer:
            losses = [trainer.step(x, y) for x, y in batches(20)]
            state = trainer.state_dict()
            return state, [loss.item() for loss in losses]

    (state, losses), (again, losses_again) = final(), final()
    assert losses == losses_again
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_one_in_flight_is_plain_sgd_bit_for_bit():
    state = state_of(ZIGZAG)
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    plain = torch.optim.SGD(list(leaves.values()), lr=LR)
    with trainer_of(ZIGZAG, in_flight=1) as trainer:
        for x, y in batches(10):
            u = x @ leaves["a"]
            loss = squared((u + torch.tanh(u @ leaves["b"])) @ leaves["c"], y)
            loss.backward()
            plain.step()
            plain.zero_grad()
            assert trainer.step(x, y).item() == loss.item()
        found = trainer.state_dict()
    assert all(torch.equal(found[name], leaves[name].detach()) for name in state)
