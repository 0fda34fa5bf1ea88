"""Optimizers train the parts of a model as they train the whole, or are refused by name before anything is trained."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR

import hyperplace
from hyperplace.errors import UsageError
from hyperplace.runtime.trial import Kind, try_out

X = torch.randn(5, 4, 3, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 3])


def net():
    torch.manual_seed(0)
    # Without a bias: before a batch norm its gradient is round-off, of which some optimizers make whole steps.
    layers = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4)
    return nn.Sequential(*layers).double()


def compiled(optimizer, *, partitioner="horizontal", k=2, **settings):
    model = net()
    plan = hyperplace.place(model, X[0], k=k, imbalance=3.0, batch=4, partitioner=partitioner)
    words = {"optimizer": optimizer, "loss": F.cross_entropy, "in_flight": 1, **settings}
    return hyperplace.compile(model, plan, **words)


def trained(*args, **settings):
    with compiled(*args, **settings) as trainer:
        for x in X:
            trainer.step(x, Y)
        return trainer.state_dict()


def plain(optimizer, scheduler=None):
    model = net()
    stepper = optimizer(model)
    rates = scheduler(stepper) if scheduler else None
    for x in X:
        stepper.zero_grad()
        F.cross_entropy(model(x), Y).backward()
        stepper.step()
        if rates:
            rates.step()
    return model.state_dict()


def same(one, other):
    return all(torch.allclose(one[name].double(), other[name].double(), rtol=0, atol=1e-9) for name in other)


class Lamb(torch.optim.Optimizer):
    """Steps as long as the tensor's norm says: not element-wise."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad * p.norm() / (p.grad.norm() + 1e-9))


class Clipping(torch.optim.SGD):
    """Clips all gradients together: an update depends on every parameter."""

    def step(self, closure=None):
        nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 1.0)
        return super().step(closure)


ELEMENTWISE = {
    name: getattr(torch.optim, name)
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
}
MIXING = {"Adafactor": torch.optim.Adafactor, "Lamb": Lamb}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_optimizers_that_go_by_element_train_slices_as_they_train_the_whole(name):
    assert same(trained(ELEMENTWISE[name]), plain(lambda model: ELEMENTWISE[name](model.parameters())))


@pytest.mark.parametrize("name", MIXING)
@pytest.mark.parametrize("partitioner", ["layerwise", "server", "server-greedy"])
def test_others_train_whole_tensors(name, partitioner):
    wanted = plain(lambda model: MIXING[name](model.parameters()))
    assert same(trained(MIXING[name], partitioner=partitioner), wanted)


@pytest.mark.parametrize("name", MIXING)
def test_others_are_refused_where_a_tensor_is_split(name):
    with pytest.raises(
        UsageError, match=rf"{name} does not update element by element, but part 0 .* slice of 0\.weight"
    ):
        compiled(MIXING[name])


def test_optimizers_that_couple_parameters_are_for_one_part():
    def clipping(parameters):
        return Clipping(parameters, lr=0.1)

    with pytest.raises(UsageError, match=r"Clipping lets one parameter's update depend on the others, but 2 parts"):
        compiled(clipping, partitioner="layerwise")
    assert same(trained(clipping, partitioner="layerwise", k=1), plain(lambda model: clipping(model.parameters())))


def test_an_optimizer_that_calls_for_the_loss_again_is_refused():
    with pytest.raises(UsageError, match="LBFGS wants a closure"):
        compiled(torch.optim.LBFGS, partitioner="layerwise", k=1)


def test_a_rate_of_zero_hides_nothing():
    parameter = nn.Parameter(torch.ones(6, 5))
    assert try_out(Lamb([parameter], lr=0.0)).mixed == {Kind(0, 2)}


def test_trying_leaves_everything_as_it_was():
    parameters = [nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(3))]
    groups = [{"params": parameters[:1], "momentum": 0.9}, {"params": parameters[1:]}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    hooked = []
    optimizer.register_step_post_hook(lambda *args: hooked.append(args))
    rates = LambdaLR(optimizer, lambda update: 0.1 * update)
    threads = torch.get_num_threads()
    drawn, settings = torch.get_rng_state(), copy.deepcopy([g | {"params": 0} for g in optimizer.param_groups])
    assert try_out(optimizer) == try_out(optimizer)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert torch.get_num_threads() == threads
    assert [g | {"params": 0} for g in optimizer.param_groups] == settings
    assert not optimizer.state
    assert not hooked
    assert rates.last_epoch == 0
    assert all(p.grad is None and torch.equal(p, torch.ones_like(p)) for p in parameters)


def test_one_that_cannot_be_tried_is_said():
    class Picky(torch.optim.SGD):
        def step(self, closure=None):
            if self.param_groups[0]["params"][0].shape[-1] == 4:
                raise ValueError("too small for me")
            return super().step(closure)

    with pytest.warns(UserWarning, match=r"Picky could not be tried .*too small for me.* make sure"):
        compiled(lambda ps: Picky(ps, lr=0.1)).close()


MODEL = net()
WRONG = {
    "an instance": (torch.optim.SGD(MODEL.parameters(), lr=0.1), "optimizer is SGD, but every part makes its own"),
    "none": (None, "optimizer is NoneType"),
    "of the model": (lambda ps: torch.optim.SGD(MODEL.parameters(), lr=0.1), "5 parameters it was not given"),
    "of some": (lambda ps: torch.optim.SGD(ps[:1], lr=0.1), r"SGD without 1\.weight; .* requires_grad_\(False\)"),
    "of nothing": (lambda ps: None, "optimizer returned NoneType"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_factory_is_refused_with_the_remedy(what):
    wrong, message = WRONG[what]
    with pytest.raises(UsageError, match=message):
        compiled(wrong)


SGD = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
WRONG_SCHEDULERS = {
    "plateau": (ReduceLROnPlateau, "ReduceLROnPlateau, which cannot step by itself after every update; .*batches_per"),
    "an instance": (StepLR(SGD, 3), "scheduler is StepLR, but every part makes its own"),
    "a number": (lambda optimizer: 3, "scheduler returned int"),
}


@pytest.mark.parametrize("what", WRONG_SCHEDULERS)
def test_schedulers_that_cannot_step_by_themselves_are_refused(what):
    wrong, message = WRONG_SCHEDULERS[what]
    with pytest.raises(UsageError, match=message):
        compiled(torch.optim.SGD, scheduler=wrong)


def test_a_rate_by_epochs_is_one_by_updates():
    """Three mini-batches are an epoch here; the plain loop steps its scheduler by epoch."""

    def by_update(optimizer):
        return LambdaLR(optimizer, lambda update: 0.1 ** (update // 3))

    model = net()
    stepper = torch.optim.SGD(model.parameters(), lr=0.1)
    rates = LambdaLR(stepper, lambda epoch: 0.1**epoch)
    for number, x in enumerate(X):
        stepper.zero_grad()
        F.cross_entropy(model(x), Y).backward()
        stepper.step()
        if number % 3 == 2:
            rates.step()
    assert same(trained(lambda ps: torch.optim.SGD(ps, lr=0.1), scheduler=by_update), model.state_dict())


def by_name(named):
    """Decay weights, but neither biases nor norms."""
    pairs = list(named)
    decays = [p for name, p in pairs if name.endswith("weight") and not name.startswith("1.")]
    others = [p for name, p in pairs if not (name.endswith("weight") and not name.startswith("1."))]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.01)


@pytest.mark.parametrize("partitioner", ["horizontal", "layerwise", "dataparallel"])
def test_groups_go_by_name(partitioner):
    wanted = plain(lambda model: by_name(model.named_parameters()))
    assert not same(wanted, plain(lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)))
    assert same(trained(by_name, named_parameters=True, partitioner=partitioner), wanted)


def test_pairs_may_go_straight_into_an_optimizer_and_its_state_into_another_plan(tmp_path):
    def named(pairs):
        assert {name for name, _ in pairs} <= set(net().state_dict())
        return torch.optim.Adam(pairs, lr=0.01)

    with compiled(named, named_parameters=True) as trainer:
        for x in X[:3]:
            trainer.step(x, Y)
        hyperplace.save_checkpoint(trainer, tmp_path / "after 3")
    with compiled(named, named_parameters=True, partitioner="layerwise", k=3) as trainer:
        hyperplace.load_checkpoint(trainer, tmp_path / "after 3")
        for x in X[3:]:
            trainer.step(x, Y)
        assert same(trainer.state_dict(), plain(lambda model: torch.optim.Adam(model.parameters(), lr=0.01)))
