"""What copies of weights cost: one tensor of gradients and one of weights for each and every update."""

from collections import Counter

import pytest
from replica_programs import SLICED, Layer, data, data_parallel, trainer_of
from torch import ones, optim

from hyperplace.runtime import RunSettings, Trainer, Training

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
    state = {"w": ones(4, 2).double(), "v": ones(1, 4).double()}
    training = Training(lambda ps: optim.SGD(ps, lr=0.1))
    settings = RunSettings("async", 2)
    with Trainer(SLICED, state, training=training, loss=lambda o, y: o.mean(), settings=settings) as trainer:
        for x, y in data(3):
            trainer.step(x, y)
        assert between_copies(trainer.moved_bytes()) == {
            ("gradients", 1, 0): 3 * 4 * NUMBER,
            ("weights", 0, 1): 3 * 4 * NUMBER,
            ("gradients", 2, 0): 3 * 2 * NUMBER,
            ("weights", 0, 2): 3 * 2 * NUMBER,
        }


def test_a_part_without_rows_still_gives_zeros():
    """A mini-batch of one row is the last part's alone; the others' copies take part in the update all the same."""
    layers = data_parallel(3)
    with trainer_of(layers, in_flight=2) as trainer:
        for x, y in data(4, rows=1):
            trainer.step(x, y)
        assert between_copies(trainer.moved_bytes()) == expected(layers, 4)
