"""Every model of the zoo, split every way: outputs, loss, gradients, one update, statistics and bytes are the model's.

All models, k = 2, 3, 4, both grains and all baselines would take an hour; the combinations are dealt out to the models
so that each k meets each grain and each baseline.
"""

import copy
from functools import cache
from itertools import product

import pytest
import torch
from program_cases import largest_difference, plain_step, planned, trainer_of
from torch.nn import functional as F

from hyperplace.models import ZOO, load_model
from hyperplace.steps.capture import capture

ROWS = 3
# At 32 the last norms of the deeper ones see as many values as there are rows: too ill-conditioned for 1e-9.
SIDES = {"alexnet": 67, "smallcnn": 28, "resnet50": 64, "resnet101": 64, "mobilenet_v2": 64}
COMBINATIONS = list(product(("coarse", "fine"), (2, 3, 4), ("layerwise", "horizontal", "incremental", "random")))
TINY = {"lenet5", "blocksnet"}  # all combinations


def combinations_of(name):
    number = list(ZOO).index(name)
    return COMBINATIONS if name in TINY else COMBINATIONS[number % 8 :: 8]


@cache
def case(name, dtype):
    """Return a zoo model without randomness, a mini-batch, its graph, and what a plain loop makes of them."""
    torch.manual_seed(0)
    entry = ZOO[name]
    side = SIDES.get(name, 32)
    net = load_model(name, [(entry.input_shape[0], side, side)], device="cpu").module.to(dtype)
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    x, y = torch.randn(ROWS, entry.input_shape[0], side, side, dtype=dtype), torch.randint(10, (ROWS,))
    net.train()
    return net, x, y, capture(net, x), plain_step(net, (x,), y, F.cross_entropy)


DEEPER = ("resnet101", "vgg19", "vgg19_bn")  # as others, with more of the same: make sweep-programs has them


@pytest.mark.parametrize("name", [name for name in ZOO if name not in DEEPER])
def test_split_models_equal_plain_ones(name):
    net, x, y, graph, (loss, after) = case(name, torch.float64)
    for grain, k, how in combinations_of(name):
        plan = planned(graph, grain, k, how, blocks=8 if grain == "coarse" else 4)
        with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
            assert trainer.step(x, y).item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
            assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9
            assert trainer.moved_bytes() == plan.moved_bytes
    case.cache_clear()


@pytest.mark.parametrize("name", ["lenet5", "blocksnet", "resnet18"])
def test_in_single_precision_they_differ_by_round_off_only(name):
    net, x, y, graph, (loss, after) = case(name, torch.float32)
    _, exact = plain_step(copy.deepcopy(net).double(), (x.double(),), y, F.cross_entropy)
    round_off = largest_difference(after.state_dict(), exact.state_dict())  # of plain torch; batch norm magnifies it
    for grain, k, how in COMBINATIONS[::5]:
        plan = planned(graph, grain, k, how, blocks=8 if grain == "coarse" else 4)
        with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
            assert trainer.step(x, y).item() == pytest.approx(loss, rel=1e-4)
            assert largest_difference(trainer.state_dict(), exact.state_dict()) < 10 * max(round_off, 1e-7)


@pytest.mark.parametrize("name", ["blocksnet", "lenet5", "mobilenet_v2"])
def test_predictions_are_those_of_the_model_in_evaluation_mode(name):
    net, x, _, graph, _ = case(name, torch.float64)
    plan = planned(graph, "coarse", 3, "incremental", blocks=8)
    with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
        net.eval()
        with torch.no_grad():
            wanted = net(x[:2])  # other rows than planned, too
        net.train()
        assert torch.allclose(trainer.predict(x[:2]), wanted, rtol=1e-9, atol=1e-12)
        assert largest_difference(trainer.state_dict(), net.state_dict()) == 0
