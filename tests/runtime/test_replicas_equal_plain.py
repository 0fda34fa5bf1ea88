"""Rows split over parts with copies of the weights train as the unsplit model does."""

from itertools import pairwise

import pytest
import torch
from replica_programs import SLICED, data, data_parallel, output_of, plain, squared, trainer_of
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hyperplace.runtime import RunSettings, Trainer, Training

OPTIMIZERS = {
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
}


def same(one, other, tolerance=1e-12):
    return one.keys() == other.keys() and all(torch.allclose(one[n], other[n], rtol=0, atol=tolerance) for n in other)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_parts", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "async"},
        {"schedule": "sync"},
        {"schedule": "sync", "micro_batches": 2, "in_flight": 2},
        {"schedule": "sync", "micro_batches": 4, "in_flight": 3},
    ],
    ids=str,
)
def test_steps_equal_those_of_the_unsplit_model(optimizer, num_parts, settings):
    layers, batches = data_parallel(num_parts), data(6)
    losses, wanted = plain(layers, batches, OPTIMIZERS[optimizer])
    with trainer_of(layers, optimizer=OPTIMIZERS[optimizer], **settings) as trainer:
        found = [trainer.step(x, y).item() for x, y in batches]
        assert found == pytest.approx(losses, abs=1e-12)
        assert same(trainer.state_dict(), wanted)


@pytest.mark.parametrize("num_parts", [2, 3])
@pytest.mark.parametrize(
    "settings", [{"schedule": "async"}, {"schedule": "sync", "micro_batches": 3, "in_flight": 2}], ids=str
)
def test_mini_batches_may_have_any_number_of_rows(num_parts, settings):
    layers = data_parallel(num_parts)
    batches = [data(1, rows, seed=rows)[0] for rows in (4, 1, 3, 5, 2, 1, 9)]
    empty = [count for rows in (1, 2) for count in rows_of_pieces(layers[0], rows) if count == 0]
    assert empty, "some pieces have no rows"
    losses, wanted = plain(layers, batches)
    with trainer_of(layers, check_nan=True, **settings) as trainer:
        assert [trainer.step(x, y).item() for x, y in batches] == pytest.approx(losses, abs=1e-12)
        assert same(trainer.state_dict(), wanted)
        for x, _ in batches:
            assert torch.allclose(trainer.predict(x), output_of(wanted.values(), x), rtol=0, atol=1e-12)


def rows_of_pieces(layer, rows):
    cuts = [layer.rows(part)[0] * rows // 4 for part in layer.users] + [rows]
    return [stop - start for start, stop in pairwise(cuts)]


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_clipping_comes_after_the_gradients_of_copies_and_goes_by_owner(schedule):
    def clipped(ps):
        return Clipped(ps, lr=0.1)

    class Clipped(torch.optim.SGD):
        def step(self, closure=None):
            for one in self.param_groups[0]["params"]:  # each part owns one
                nn.utils.clip_grad_norm_([one], 0.01)
            return super().step(closure)

    layers, batches = data_parallel(2), data(5)
    _, wanted = plain(layers, batches, clipped)
    _, loose = plain(layers, batches, lambda ps: torch.optim.SGD(ps, lr=0.1))
    assert not same(loose, wanted)
    with trainer_of(
        layers, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), clip_part_norm=0.01, schedule=schedule
    ) as trainer:
        for x, y in batches:
            trainer.step(x, y)
        assert same(trainer.state_dict(), wanted)


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_learning_rates_and_averages_are_the_owners(schedule):
    def rates(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    def average(module):
        return AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.5))

    made, kept = [], []

    def both(ps):
        optimizer = OPTIMIZERS["momentum"](ps)
        made.append(rates(optimizer))
        return optimizer

    def after_step(weights):
        made[0].step()
        kept.append(kept[0] if kept else average(nn.ParameterList(weights)))
        kept[0].update_parameters(nn.ParameterList(weights))

    layers, batches = data_parallel(3), data(5)
    _, wanted = plain(layers, batches, both, after_step)
    options = {"scheduler": rates, "average": average, "schedule": schedule}
    with trainer_of(layers, optimizer=OPTIMIZERS["momentum"], **options) as trainer:
        for x, y in batches:
            trainer.step(x, y)
        assert same(trainer.state_dict(), wanted)
        averaged = {f"w{n}": tensor.detach() for n, tensor in enumerate(kept[0].module)}
        assert not same(averaged, wanted)
        assert same(trainer.averaged_state_dict(), averaged)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_copies_may_be_slices_of_what_the_owner_has(optimizer, schedule):
    generator = torch.Generator().manual_seed(5)
    state = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in {"w": (4, 2), "v": (1, 4)}.items()}
    w, v = (nn.Parameter(tensor.clone()) for tensor in state.values())
    stepper = OPTIMIZERS[optimizer]([w, v])
    training = Training(OPTIMIZERS[optimizer])
    settings = RunSettings(schedule, 1)
    with Trainer(SLICED, state, training=training, loss=squared, settings=settings) as trainer:
        for rows in (4, 4, 3, 5, 1, 8):
            x, y = data(1, rows, seed=rows)[0]
            loss = squared(torch.tanh(x @ w.t()) @ v.t(), y[:, :1])
            loss.backward()
            stepper.step()
            stepper.zero_grad()
            assert trainer.step(x, y[:, :1]).item() == pytest.approx(loss.item(), abs=1e-12)
        assert same(trainer.state_dict(), {"w": w.detach(), "v": v.detach()})
