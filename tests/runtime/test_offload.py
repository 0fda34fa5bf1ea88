"""Segments that keep in the host's memory what they save: the same losses and states, bit for bit, and less memory.

Here the device's memory is the host's own. What is to be seen all the same: that everything that is saved is moved,
once, that nothing else holds it, and that what comes back is what was saved.
"""

import weakref

import pytest
import torch
from grain_cases import GRAINS, batches, sgd
from program_cases import planned
from test_recompute import FLOWS, model, trained
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import hyperplace
from hyperplace.errors import FileError, UsageError
from hyperplace.runtime import offload
from hyperplace.runtime.offload import edges_of, offloading
from hyperplace.steps.capture import capture
from hyperplace.values.relief import offloaded


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
def test_losses_and_states_are_the_same_bits(grain, flow):
    plan = planned(capture(model(), batches(torch.float32)[0][0]), GRAINS[grain][0], 3, GRAINS[grain][1])
    losses, state, program = trained(plan, "none", **FLOWS[flow])
    some = [(p, s) for p, part in enumerate(program.parts) for s in range(len(part.segments))]
    half, rest = (",".join(f"{p}:{s}" for p, s in some[first::2]) or "none" for first in (0, 1))
    for away, again in (("all", "none"), (half, rest)):
        same, other, marked = trained(plan, again, offload=away, **FLOWS[flow])
        assert same == losses
        assert all(torch.equal(other[name], tensor) for name, tensor in state.items())
        assert offloaded(marked) == tuple(some if away == "all" else some[::2])


def test_micro_batches_and_autocast_are_the_same_bits():
    def made(away):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(32, 5))
        plan = hyperplace.place(net, torch.zeros(6, 3, 4, 4), k=2, partitioner="incremental")
        words = {"schedule": "sync", "micro_batches": 3, "offload": away}
        with (
            hyperplace.compile(net, plan, optimizer=sgd, loss=F.cross_entropy, **words) as trainer,
            torch.autocast("cpu", dtype=torch.bfloat16),
        ):
            return [trainer.step(x, y).item() for x, y in batches(torch.float32)]

    assert made("all") == made("none")


class Made(TorchDispatchMode):
    """Note the memory of every tensor that an operation makes, as long as it is there."""

    def __init__(self):
        super().__init__()
        self.sizes = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor):
                storage = value.untyped_storage()
                self.sizes[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.sizes.pop, storage._cdata, None)
        return result


def test_between_its_passes_a_device_holds_nothing_of_a_segment_but_its_results(monkeypatch):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(288, 5))
    x, host = torch.randn(4, 3, 10, 10), []
    real = offload._on_host

    def on_host(tensor):
        host.append(real(tensor))
        return host[-1]

    monkeypatch.setattr(offload, "_on_host", on_host)
    with Made() as made:
        with offloading(lambda: list(net.parameters())):
            results = [net(x)]
        edges = edges_of(results)
        away = {one.untyped_storage()._cdata for one in host}
        there = {one.untyped_storage()._cdata for one in (x, *net.parameters())}
        left = {name: size for name, size in made.sizes.items() if name not in away | there}
        assert left == {results[0].untyped_storage()._cdata: results[0].untyped_storage().nbytes()}
        del results
        assert not set(made.sizes) - away - there
    # The input, and what two convolutions, ReLU, Tanh and the linear layer take or make: each once, though two save it.
    sizes = [4 * 3 * 100, 4 * 8 * 64, 4 * 8 * 36]
    assert sorted(one.numel() for one in host) == sorted(4 * size for size in sizes)
    torch.autograd.backward(edges, [torch.ones(4, 5)])
    gradients = [one.grad.clone() for one in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    assert all(torch.equal(one, other.grad) for one, other in zip(gradients, net.parameters(), strict=True))


def test_what_is_written_to_in_between_is_moved_anew_and_strides_come_back():
    x = torch.randn(6, 4, requires_grad=True)
    weight = torch.randn(4, 3, requires_grad=True)

    def run():
        y = x.t().contiguous().t() * 2  # strides of a transposed matrix
        z = y * y  # saves y
        y.mul_(3)
        return (z @ weight).sum() + (x.t() @ x).exp().sum() + torch.fft.fft(x).conj().abs().pow(3).sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        run().backward()
    x.grad = weight.grad = None  # of what ran before it was noticed
    with offloading(lambda: [weight]):
        run().backward()
    got, x.grad, weight.grad = (x.grad, weight.grad), None, None
    y = x * 2
    ((y * y @ weight).sum() + (x.t() @ x).exp().sum() + torch.fft.fft(x).conj().abs().pow(3).sum()).backward()
    torch.testing.assert_close(got, (x.grad, weight.grad))


def test_what_two_save_comes_back_once(monkeypatch):
    """The way back is priced as the way there; ReLU and the next convolution save the same memory."""
    net, back = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)), []
    real = offload._Memory.back
    monkeypatch.setattr(offload._Memory, "back", lambda memory: back.append(found := real(memory)) or found)
    with offloading(lambda: list(net.parameters())):
        loss = net(torch.randn(2, 3, 8, 8)).sum()
    loss.backward()
    assert len(back) == 3
    assert len({one._cdata for one in back}) == 2


def test_numbers_from_python_are_computed_with_in_the_dtype_of_the_others():
    """In a scalar's backward pass a number that came back as a float64 tensor made another last bit."""

    def gradient(t):
        (t.exp() * 0.1 / 3.0).backward()
        return t.grad

    for start in torch.linspace(-3, 3, 200):
        plain = gradient(start.clone().requires_grad_())
        with offloading(list):
            assert torch.equal(gradient(start.clone().requires_grad_()), plain)


def test_results_without_gradients_and_results_given_twice():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    edges = edges_of([y, x.detach(), y, x])
    assert edges[1] is None
    assert edges[0] is edges[2]
    torch.autograd.backward([edges[0], edges[3]], [torch.ones(3), torch.ones(3)])
    assert x.grad.tolist() == [3.0] * 3


def test_words_that_do_not_fit_are_refused():
    net = nn.Linear(3, 2)
    plan = hyperplace.place(net, torch.zeros(4, 3), k=1, partitioner="single")
    with pytest.raises(UsageError, match="offload 'some' is neither none nor all nor parts and segments"):
        hyperplace.generate(net, plan, offload="some")
    with pytest.raises(UsageError, match="no segment 7 of part 0 to offload"):
        hyperplace.generate(net, plan, offload="0:7")
    with pytest.raises(UsageError, match="segment 0 of part 0 is to recompute and to offload"):
        hyperplace.generate(net, plan, offload="all", recompute="0:0")


def test_the_text_of_a_program_says_it_and_gives_it_back():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    plan = hyperplace.place(net, torch.zeros(4, 3, 10, 10), k=2, partitioner="horizontal")
    text = hyperplace.generate(net, plan, offload="0:0")
    assert text.count("offloads=True") == 1
    program = hyperplace.load_program(text)
    assert offloaded(program) == ((0, 0),)
    assert hyperplace.emit(program) == text
    with pytest.raises(FileError, match="both recomputes and offloads"):
        hyperplace.load_program(text.replace("offloads=True", "offloads=True, recomputes=True"))
