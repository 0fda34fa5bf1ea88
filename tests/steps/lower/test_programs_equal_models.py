"""A generated program computes what the model computes: losses, gradients (through one update), statistics, bytes."""

import pytest
from capture_models import MODELS, captured, model
from program_cases import largest_difference, plain_step, planned, trainer_of, wavy_loss

UNTRAINABLE = {"in_place_then_read_again"}  # plain torch refuses its backward pass, too
NAMES = sorted(set(MODELS) - UNTRAINABLE)


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", NAMES)
def test_every_way_channels_flow(name, grain):
    net, inputs = model(name)
    graph = captured(name)
    loss, after = plain_step(net, inputs, None, wavy_loss)
    for k, how in [(1, "contiguous"), (2, "scattered"), (3, "contiguous"), (3, "scattered")]:
        plan = planned(graph, grain, k, how)
        with trainer_of(graph, plan, net, wavy_loss) as trainer:
            found = trainer.step(*inputs, None)
            assert found.item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
            assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9
            assert trainer.moved_bytes() == plan.moved_bytes
