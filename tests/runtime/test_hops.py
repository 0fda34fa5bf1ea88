"""The chain that hops are timed with: it goes where it says, and what it hands on arrives."""

import pytest
import torch

from hyperplace.runtime import RunSettings, Trainer, Training
from hyperplace.runtime.hosts.hops import FILTERS, ROWS, chain


@pytest.mark.parametrize(("num_parts", "laps"), [(2, 1), (3, 4)])
def test_a_chain_hands_on_in_turn_forward_and_backward(num_parts, laps):
    made, scale = chain(num_parts, laps), torch.full((FILTERS,), 3.0)
    training = Training(lambda parameters: torch.optim.SGD(parameters, lr=FILTERS))
    settings = RunSettings(in_flight=1, threads=1)
    with Trainer(made, {"scale": scale}, training=training, loss=lambda y, _: y.mean(), settings=settings) as trainer:
        assert trainer.step(2 * torch.ones(ROWS, FILTERS), None).item() == 6.0
        assert torch.equal(trainer.state_dict()["scale"], scale - 2), "the gradient came all the way back"
        moved = trainer.moved_bytes()
    assert sum(moved.values()) == 2 * (num_parts * laps - 1) * ROWS * FILTERS * 4
    assert {(source, target) for way, source, target in moved if way == "forward"} == {
        (p, (p + 1) % num_parts) for p in range(num_parts if laps > 1 else num_parts - 1)
    }
