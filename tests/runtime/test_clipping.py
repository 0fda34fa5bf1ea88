"""`clip_norm` is the norm of all parts' gradients, as clip_grad_norm_ has it for the whole model."""

import pytest
import torch
from grain_cases import FLOWS, GRAINS, batches, net, plain_loop, sgd, trainer_on
from handmade import ZIGZAG, state_of
from handmade import batches as zigzag_batches
from handmade import squared as squared_error
from program_cases import largest_difference
from replica_programs import data, num_parts_of, random_layers, squared, trainer_of, weights_of
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.runtime import RunSettings, Trainer, Training

MOST = 4.0


def clipped(model):
    return nn.utils.clip_grad_norm_(model.parameters(), MOST)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.timeout(60)
def test_twenty_steps_equal_the_plain_loop_on_every_grain(grain, flow):
    model, norms = net(), []
    losses, wanted = plain_loop(model, before_step=lambda model: norms.append(clipped(model).item()))
    assert min(norms) < MOST < max(norms), "some steps are clipped and some are not"
    with trainer_on(grain, model, training=Training(sgd, clip_norm=MOST), **FLOWS[flow]) as trainer:
        found = [trainer.step(x, y).item() for x, y in batches()]
        assert found == pytest.approx(losses, abs=1e-9)
        assert largest_difference(trainer.state_dict(), wanted) < 1e-9


def test_several_micro_batches_are_clipped_together():
    layers = random_layers(3)
    batch = data(1)[0]
    weights = [nn.Parameter(tensor) for tensor in weights_of(layers).values()]
    x = batch[0]
    for weight in weights:
        x = torch.tanh(x @ weight.t())
    squared(x, batch[1]).backward()
    nn.utils.clip_grad_norm_(weights, 0.01)
    torch.optim.SGD(weights, lr=0.05).step()
    with trainer_of(layers, schedule="sync", micro_batches=4, in_flight=2, clip_norm=0.01) as trainer:
        trainer.step(*batch)
        assert same(trainer.state_dict(), {f"w{n}": w.detach() for n, w in enumerate(weights)})


def same(one, other):
    return all(torch.allclose(one[name], other[name], rtol=0, atol=1e-12) for name in other)


@pytest.mark.parametrize("in_flight", [2, 4])
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.timeout(60)
def test_several_mini_batches_in_flight_neither_deadlock_nor_mix(seed, in_flight):
    """Losses of a run repeat to the bit, and with a bound that is never reached clipping changes only the delays."""
    layers = random_layers(seed)

    def losses(most):
        with trainer_of(layers, in_flight=in_flight, clip_norm=most) as trainer:
            found = [trainer.step(x, y) for x, y in data(12)]
            trainer.flush()
            assert all(s.most < in_flight for s in trainer.staleness)
            moved = trainer.moved_bytes(planned=False)
            return [loss.item() for loss in found], {key: size for key, size in moved.items() if key[0] == "norms"}

    first, moved = losses(0.01)
    assert first == losses(0.01)[0]
    assert first != losses(1e6)[0]
    owners = {layer.owner for layer in layers}
    assert moved == {("norms", p, q): 12 * 8 for p in owners for q in owners if p != q}, "a number a mini-batch"
    assert num_parts_of(layers) >= len(owners)


class Norms(torch.optim.SGD):
    """Plain SGD that remembers the norms of the gradients it was given."""

    def __init__(self, parameters, history):
        super().__init__(parameters, lr=0.05)
        self.history = history

    def step(self, closure=None):
        gradients = [p.grad for p in self.param_groups[0]["params"] if p.grad is not None]
        self.history.append(nn.utils.get_total_norm(gradients).item())
        return super().step(closure)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.timeout(60)
def test_the_parts_scale_the_same_mini_batch_together_whatever_is_in_flight(seed):
    histories = []

    def optimizer(parameters):
        histories.append([])
        return Norms(parameters, histories[-1])

    with trainer_of(random_layers(seed), optimizer=optimizer, in_flight=4, clip_norm=0.01) as trainer:
        for x, y in data(12):
            trainer.step(x, y)
    together = [sum(norm**2 for norm in norms) ** 0.5 for norms in zip(*histories, strict=True)]
    assert together == pytest.approx([0.01] * 12, rel=1e-2), "all are above the bound, so all end at it"


def test_gradients_that_are_not_numbers_spoil_all_weights_as_in_torch():
    def loss(output, target):
        return squared_error(output, target) * float("nan")

    settings = RunSettings(in_flight=1)
    training = Training(sgd, clip_norm=0.1)
    with Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=loss, settings=settings) as trainer:
        trainer.step(*zigzag_batches(1)[0])
        assert all(tensor.isnan().all() for tensor in trainer.state_dict().values())


@pytest.mark.parametrize("wrong", [0, -1.0, "1", float("nan"), True])
def test_what_is_no_norm_is_refused(wrong):
    for name in ("clip_norm", "clip_part_norm"):
        with pytest.raises(UsageError, match=f"{name} .* is not a norm; give a number above 0"):
            Training(sgd, **{name: wrong})


def test_one_kind_of_clipping_at_a_time():
    with pytest.raises(UsageError, match="give one of them"):
        Training(sgd, clip_norm=1.0, clip_part_norm=1.0)
