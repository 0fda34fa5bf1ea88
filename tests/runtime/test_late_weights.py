"""New versions of weights that come late: the layers before the one that uses them do not wait."""

import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "steps" / "lower"))

from program_cases import largest_difference, planned, sgd, trainer_of

from hyperplace.runtime.runnable import Part
from hyperplace.runtime.transport import WEIGHTS
from hyperplace.runtime.transport.threads import Threads
from hyperplace.steps.capture import capture
from hyperplace.values.program import Piece

LATE_S = 0.05


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 5)
    ).double()


def batches():
    torch.manual_seed(1)
    return [(torch.randn(6, 3, 16, 16, dtype=torch.float64), torch.arange(6) % 5) for _ in range(4)]


def plain(model):
    optimizer = sgd(model.parameters())
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("words", [{"schedule": "sync"}, {"schedule": "sync", "micro_batches": 2}, {"in_flight": 1}])
def test_the_first_layers_do_not_wait_for_the_last(words, monkeypatch):
    receive = Threads.receive

    def late(self, key):
        if key.way == WEIGHTS and "5" in str(key.item):  # of the linear layer
            time.sleep(LATE_S)
        return receive(self, key)

    monkeypatch.setattr(Threads, "receive", late)
    model = net()
    graph = capture(model, batches()[0][0])
    plan = planned(graph, "hybrid", 2, "dataparallel", blocks=1, row_blocks=2)
    with trainer_of(graph, plan, model, F.cross_entropy, record=True, **words) as trainer:
        for x, y in batches():
            trainer.step(x, y)
        assert largest_difference(trainer.state_dict(), plain(net()).state_dict()) < 1e-12
        trainer.flush()
        events = trainer.timeline().events
    waited = [one for one in events if one.kind == "wait" and one.end_us - one.start_us > 1e6 * LATE_S / 2]
    assert any(
        (one.kind, one.part, one.batch, one.end_us) == ("forward", wait.part, wait.batch, wait.start_us)
        for wait in waited
        for one in events
    ), "a forward pass that waits in its midst"


class Given(Part):
    weights: ClassVar = {"weight": Piece("weight", (2,)), "bias": Piece("bias", (2,))}


def test_a_weight_is_fetched_once_and_only_while_it_is_expected():
    part, fetched = Given(), []
    part.see({"weight": torch.zeros(2), "bias": torch.zeros(2)})
    part.expect(["weight"], lambda name: fetched.append(name) or torch.ones(2))
    assert part.weight.sum() + part.weight.sum() + part.bias.sum() == 4
    assert fetched == ["weight"]
    part.expect(["weight"], None)
    with pytest.raises(AttributeError, match="Given has no attribute 'weight'"):
        _ = part.weight
    part.expect([], lambda name: torch.ones(2))
    with pytest.raises(AttributeError, match="no attribute 'width'"):
        _ = part.width
