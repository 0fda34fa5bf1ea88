"""State dicts, checkpoints and predictions have the owners' weights, the newest, and set all copies."""

from typing import ClassVar

import pytest
import torch
from replica_programs import Layer, data, data_parallel, output_of, squared, trainer_of, weights_of
from torch.optim.swa_utils import AveragedModel

from hyperplace.errors import TrainingError
from hyperplace.runtime import (
    Copy,
    Feed,
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
    load_checkpoint,
    program,
    save_checkpoint,
)

MIXED = (Layer((0, 1), 0), Layer((2,), 2), Layer((1, 2), 1))
WHOLE = (Layer((0,), 0), Layer((1,), 1), Layer((2,), 2))  # the same model without copies
OPTIONS = {
    "optimizer": lambda ps: torch.optim.Adam(ps, lr=0.02),
    "scheduler": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3),
    "average": AveragedModel,
}


def train(trainer, batches):
    losses = [trainer.step(x, y) for x, y in batches]
    trainer.flush()
    return [loss.item() for loss in losses]


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def settings_of(schedule):
    return {"schedule": schedule, "in_flight": 3}


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_a_resumed_run_with_copies_has_the_same_losses(tmp_path, schedule):
    with trainer_of(MIXED, **OPTIONS, **settings_of(schedule)) as trainer:
        train(trainer, data(9)[:4])
        save_checkpoint(trainer, tmp_path / "c.pt")
        wanted = train(trainer, data(9)[4:])
        state, averaged = trainer.state_dict(), trainer.averaged_state_dict()
        # Back in the same trainer, which has seen more since: nothing of that may come back.
        load_checkpoint(trainer, tmp_path / "c.pt")
        assert train(trainer, data(9)[4:]) == wanted
    with trainer_of(MIXED, **OPTIONS, **settings_of(schedule)) as trainer:
        load_checkpoint(trainer, tmp_path / "c.pt")
        assert train(trainer, data(9)[4:]) == wanted
        assert equal(trainer.state_dict(), state)
        assert equal(trainer.averaged_state_dict(), averaged)


def test_a_checkpoint_goes_to_a_program_without_copies_and_back(tmp_path):
    with trainer_of(MIXED, **OPTIONS) as trainer:
        train(trainer, data(8)[:3])
        save_checkpoint(trainer, tmp_path / "c.pt")
        wanted = train(trainer, data(8)[3:])
    with trainer_of(WHOLE, **OPTIONS) as trainer:
        load_checkpoint(trainer, tmp_path / "c.pt")
        first = train(trainer, data(8)[3:5])
        save_checkpoint(trainer, tmp_path / "d.pt")
    with trainer_of(MIXED, **OPTIONS) as trainer:
        load_checkpoint(trainer, tmp_path / "d.pt")
        rest = train(trainer, data(8)[5:])
    assert first + rest == pytest.approx(wanted, abs=1e-12)
    one, other = (torch.load(tmp_path / name, weights_only=True) for name in ("c.pt", "d.pt"))
    assert one.keys() == other.keys()
    assert one["optimizer"].keys() == other["optimizer"].keys() == {"w0", "w1", "w2"}


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_other_weights_reach_all_copies(schedule):
    layers, other = data_parallel(3), weights_of(MIXED, seed=9)
    other = {name: other[name] for name in ("w0", "w1")}
    x, _ = data(1)[0]
    with trainer_of(layers, **settings_of(schedule)) as trainer:
        for _ in range(3):  # with messages of the mini-batches before under way
            train(trainer, data(4))
            assert not equal(trainer.state_dict(), other)
            trainer.load_state_dict(other)
            assert equal(trainer.state_dict(), other)
            assert torch.allclose(trainer.predict(x), output_of(other.values(), x), rtol=0, atol=1e-12)
        losses = train(trainer, data(4))
    with trainer_of(layers, **settings_of(schedule)) as fresh:
        fresh.load_state_dict(other)
        assert train(fresh, data(4)) == losses


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4])
@pytest.mark.parametrize("layers", [data_parallel(2), data_parallel(3), MIXED], ids=["two", "three", "mixed"])
def test_predictions_use_the_newest_weights_on_all_parts(layers, in_flight):
    x, _ = data(1, rows=6, seed=8)[0]
    with trainer_of(layers, in_flight=in_flight) as trainer:
        for steps in (1, 3, 2, 5):
            for batch in data(steps, seed=steps):
                trainer.step(*batch)
            found = trainer.predict(x)
            state = trainer.state_dict()
            assert torch.allclose(found, output_of(state.values(), x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_a_closed_trainer_gives_its_weights_and_takes_no_others(schedule):
    layers, other = data_parallel(2), weights_of(data_parallel(2), seed=9)
    with trainer_of(layers, **settings_of(schedule)) as trainer:
        train(trainer, data(4))
        wanted = trainer.state_dict()
    with pytest.raises(TrainingError, match="closed"):
        trainer.load_state_dict(other)
    assert equal(trainer.state_dict(), wanted)


class Counting0(Part):
    """Counts its calls in a buffer that the other part has too."""

    weights: ClassVar = {"w": Piece("w", (2, 2))}
    buffers: ClassVar = {"calls": Piece("calls", (1,))}
    segments = (
        Segment("go", (Feed(0, "0:2", (0, 2)), Receive(0)), (Output(0),), ("w",), ("w",), forward=1, backward=2),
    )

    def go(self, x, h):
        self.calls += 1
        return (torch.cat([x @ self.w.t(), h]),)


class Counting1(Part):
    weights: ClassVar = {"w": Copy("w", (2, 2), owner=0)}
    buffers: ClassVar = {"calls": Copy("calls", (1,), owner=0)}
    segments = (Segment("go", (Feed(0, "0:2", (2, 4)),), (Send(0),), ("w",), ("w",), forward=1, backward=2),)

    def go(self, x):
        self.calls += 100
        return (x @ self.w.t(),)


def test_buffers_are_the_owners_and_loading_sets_the_copies():
    messages = (Message(0, "h", source=1, target=0, shape=(2, 2), dtype="float64", rows=(2, 4)),)
    made = program("counting", inputs=((2,),), parts=(Counting0, Counting1), batch=4, messages=messages)
    state = {"w": torch.eye(2).double(), "calls": torch.zeros(1).double()}
    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.1))
    with Trainer(made, state, training=training, loss=squared, settings=RunSettings("async", 2)) as trainer:
        train(trainer, data(3))
        assert trainer.state_dict()["calls"].item() == trainer.averaged_state_dict()["calls"].item() == 3
        assert trainer.ranks[1].weights.buffers["calls"].item() == 300
        trainer.load_state_dict({**trainer.state_dict(), "calls": torch.full((1,), 7.0).double()})
        assert [rank.weights.buffers["calls"].item() for rank in trainer.ranks] == [7, 7]
