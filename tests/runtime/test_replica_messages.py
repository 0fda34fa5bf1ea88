"""What copies of weights cost: one tensor of gradients and one of weights for each and every update."""

from collections import Counter
from typing import ClassVar

import pytest
import torch
from replica_programs import SLICED, Layer, data, data_parallel, squared, trainer_of

from hyperplace.runtime import (
    Copy,
    Feed,
    Keep,
    Message,
    Output,
    Part,
    Piece,
    Receive,
    RunSettings,
    Segment,
    Send,
    Trainer,
    Training,
    program,
)
from hyperplace.runtime.transport.threads import Threads

SGD = Training(lambda ps: torch.optim.SGD(ps, lr=0.1))
NUMBER = 8  # bytes of a float64
WEIGHT = 4 * NUMBER


def between_copies(moved):
    return {key: count for key, count in moved.items() if key[0] in ("gradients", "weights")}


def expected(layers, num_updates):
    wanted = Counter()
    for layer in layers:
        for user in layer.users:
            if user != layer.owner:
                wanted["gradients", user, layer.owner] += WEIGHT * num_updates
                wanted["weights", layer.owner, user] += WEIGHT * num_updates
    return wanted


@pytest.mark.parametrize(
    "layers",
    [data_parallel(2), data_parallel(3), (Layer((0, 1), 0), Layer((0, 1, 2), 0), Layer((1,), 2))],
    ids=["two", "three", "several from one"],
)
@pytest.mark.parametrize(
    "settings",
    [{"in_flight": 1}, {"in_flight": 3}, {"schedule": "sync"}, {"schedule": "sync", "micro_batches": 4}],
    ids=str,
)
def test_every_update_moves_every_copy_once_each_way(layers, settings):
    with trainer_of(layers, **settings) as trainer:
        assert not trainer.moved_bytes()
        for number, (x, y) in enumerate(data(5)):
            trainer.step(x, y)
            if number in (1, 4):
                assert between_copies(trainer.moved_bytes()) == expected(layers, number + 1)
        before = trainer.moved_bytes()
        trainer.predict(data(1)[0][0])
        trainer.load_state_dict(trainer.state_dict())
        assert between_copies(trainer.moved_bytes()) == between_copies(before)
        assert {way for way, _, _ in trainer.moved_bytes(planned=False)} == {"forward", "backward"}


def test_rows_that_stay_where_they_are_move_nothing_else():
    with trainer_of(data_parallel(2)) as trainer:
        for x, y in data(3):
            trainer.step(x, y)
        assert trainer.moved_bytes() == expected(data_parallel(2), 3)


def test_a_copy_of_a_slice_moves_only_the_slice():
    state = {"w": torch.ones(4, 2).double(), "v": torch.ones(1, 4).double()}
    settings = RunSettings("async", 2)
    with Trainer(SLICED, state, training=SGD, loss=lambda o, y: o.mean(), settings=settings) as trainer:
        for x, y in data(3):
            trainer.step(x, y)
        assert between_copies(trainer.moved_bytes()) == {
            ("gradients", 1, 0): 3 * 4 * NUMBER,
            ("weights", 0, 1): 3 * 4 * NUMBER,
            ("gradients", 2, 0): 3 * 2 * NUMBER,
            ("weights", 0, 2): 3 * 2 * NUMBER,
        }


class Lender(Part):
    weights: ClassVar = {"w": Piece("w", (2, 2))}
    segments = (
        Segment("go", (Feed(0, "0:2", (2, 4)), Receive(0)), (Output(0),), ("w",), ("w",), forward=1, backward=2),
    )

    def go(self, x, h):
        return (torch.cat([h, x @ self.w.t()]),)


class Shy(Part):
    """Leaves its copy alone where it has no rows, so the copy gets no gradient."""

    weights: ClassVar = {"w": Copy("w", (2, 2), owner=0)}
    segments = (Segment("go", (Feed(0, "0:2", (0, 2)),), (Send(0),), ("w",), ("w",), forward=1, backward=2),)

    def go(self, x):
        return (x @ self.w.t() if len(x) else x,)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_a_copy_without_a_gradient_gives_zeros(schedule):
    messages = (Message(0, "h", source=1, target=0, shape=(2, 2), dtype="float64", rows=(0, 2)),)
    made = program("shy", inputs=((2,),), parts=(Lender, Shy), batch=4, messages=messages)
    state = {"w": torch.eye(2).double()}
    w = state["w"].clone().requires_grad_()
    with Trainer(made, state, training=SGD, loss=squared, settings=RunSettings(schedule, 1)) as trainer:
        for rows in (1, 4, 1, 1):
            x, y = data(1, rows, seed=rows)[0]
            (gradient,) = torch.autograd.grad(squared(x @ w.t(), y), w)
            w = (w - 0.1 * gradient).detach().requires_grad_()
            trainer.step(x, y)
        assert torch.allclose(trainer.state_dict()["w"], w, rtol=0, atol=1e-12)
        assert between_copies(trainer.moved_bytes()) == {("gradients", 1, 0): 4 * WEIGHT, ("weights", 0, 1): 4 * WEIGHT}


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_an_owner_keeps_no_more_versions_than_are_in_flight(schedule):
    """Also of a weight that it lends, and has no use for itself: part 2 runs the second layer only."""
    layers = (Layer((0, 1), 2), Layer((1, 2), 1))
    with trainer_of(layers, schedule=schedule, in_flight=3) as trainer:
        for x, y in data(20):
            trainer.step(x, y)
        trainer.flush()
        assert all(len(kept) <= 3 for rank in trainer.ranks for kept in rank.replicas._kept.values())


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_mailboxes_hold_no_more_than_what_is_in_flight(schedule):
    layers = data_parallel(3)
    with trainer_of(layers, schedule=schedule, in_flight=3) as trainer:
        waiting = []
        for _ in range(4):
            for x, y in data(10):
                trainer.step(x, y)
            trainer.flush()
            waiting.append(sum(map(len, trainer._transport._boxes.values())))
        assert len(set(waiting)) == 1, "no more after many mini-batches than after some"
        trainer.load_state_dict(trainer.state_dict())
        assert not any(trainer._transport._boxes.values()), "weights from before would come back later"


class Mark(torch.autograd.Function):
    """Notes when a backward pass comes by."""

    happened: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Mark.happened.append("pass")
        return gradient


class TwoLayers(Part):
    """Two layers in one segment, and the second once more in another; both weights are the lender's."""

    weights: ClassVar = {"first": Copy("w", (2, 2), owner=0), "second": Copy("v", (2, 2), owner=0)}
    segments = (
        Segment("go", (Feed(0, "0:2", (0, 2)),), (Keep("h"),), ("w",), ("first", "second"), forward=1, backward=2),
        Segment("again", (Keep("h"),), (Send(0),), ("v",), ("second",), forward=1, backward=2),
    )

    def go(self, x):
        return (Mark.apply(x @ self.first.t()) @ self.second.t(),)

    def again(self, h):
        return (Mark.apply(h) @ self.second.t(),)


class LendsTwo(Lender):
    weights: ClassVar = {"w": Piece("w", (2, 2)), "v": Piece("v", (2, 2))}


@pytest.mark.parametrize(
    ("settings", "order"),
    [
        ({}, ["pass", "second", "pass", "first"]),
        ({"schedule": "sync", "micro_batches": 1}, ["pass", "second", "pass", "first"]),
        ({"schedule": "sync", "micro_batches": 2}, ["pass", "pass"] * 2 + ["first", "second"]),
    ],
    ids=str,
)
def test_a_gradient_goes_while_earlier_layers_run_backward(settings, order, monkeypatch):
    """Once no segment can add to it: the second weight is used twice."""
    messages = (Message(0, "h", source=1, target=0, shape=(2, 2), dtype="float64", rows=(0, 2)),)
    made = program("early", inputs=((2,),), parts=(LendsTwo, TwoLayers), batch=4, messages=messages)
    state = {"w": torch.eye(2).double(), "v": torch.full((2, 2), 0.5).double()}
    happened, send = [], Threads.send

    def noted(transport, key, *tensor, **words):
        if key.way == "gradients":
            happened.append(key.item)
        send(transport, key, *tensor, **words)

    monkeypatch.setattr(Threads, "send", noted)
    monkeypatch.setattr(Mark, "happened", happened)
    settings = RunSettings(**{"schedule": "async", "in_flight": 1, **settings})
    with Trainer(made, state, training=SGD, loss=squared, settings=settings) as trainer:
        for x, y in data(2):
            trainer.step(x, y)
        trainer.flush()
    assert happened == order * 2
