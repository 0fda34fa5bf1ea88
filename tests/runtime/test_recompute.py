"""Segments that run forward again for their backward pass: the same losses and states, bit for bit, and less memory."""

import pytest
import torch
from grain_cases import GRAINS, batches, plain_loop, sgd
from program_cases import planned
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.errors import UsageError
from hyperplace.steps.capture import capture
from hyperplace.values.relief import recomputed, recomputing

FLOWS = {
    "one in flight": {"in_flight": 1},
    "four in flight": {"in_flight": 4},
    "sync": {"schedule": "sync", "micro_batches": 1},
}


class Net(nn.Module):
    """Dropout, batch norm, a residual, in-place operations, a buffer read before and after it is written."""

    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.drop, self.relu, self.head = nn.Dropout(0.3), nn.ReLU(inplace=True), nn.Linear(8 * 4, 5)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        x = self.drop(self.relu(self.norm(self.a(x)))) + self.scale
        with torch.no_grad():
            self.scale.lerp_(x.abs().mean(), 0.1)
        x = F.max_pool2d(x + torch.tanh(self.b(x * self.scale)), 2)
        return self.head(self.drop(x.flatten(1)))


def model():
    torch.manual_seed(0)
    return Net()


def trained(plan, recompute, **flow):
    """Return losses, what a state has, and the program."""
    with hyperplace.compile(model(), plan, optimizer=sgd, loss=F.cross_entropy, recompute=recompute, **flow) as trainer:
        given = [trainer.step(x, y) for x, y in batches(torch.float32)]
        trainer.flush()
        return [loss.item() for loss in given], trainer.state_dict(), trainer.program


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
def test_losses_and_states_are_the_same_bits(grain, flow):
    plan = planned(capture(model(), batches(torch.float32)[0][0]), GRAINS[grain][0], 3, GRAINS[grain][1])
    losses, state, program = trained(plan, "none", **FLOWS[flow])
    assert len(set(losses)) == len(losses)
    some = [(p, s) for p, part in enumerate(program.parts) for s in range(0, len(part.segments), 2)]
    for recompute in ("all", ",".join(f"{p}:{s}" for p, s in some)):
        again, same, marked = trained(plan, recompute, **FLOWS[flow])
        assert again == losses
        assert all(torch.equal(same[name], tensor) for name, tensor in state.items())
        assert recompute == "all" or recomputed(marked) == tuple(some)


def test_micro_batches_and_autocast_are_the_same_bits():
    def made(recompute):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(32, 5))
        plan = hyperplace.place(net, torch.zeros(6, 3, 4, 4), k=2, partitioner="incremental")
        with (
            hyperplace.compile(
                net, plan, optimizer=sgd, loss=F.cross_entropy, schedule="sync", micro_batches=3, recompute=recompute
            ) as trainer,
            torch.autocast("cpu", dtype=torch.bfloat16),
        ):
            return [trainer.step(x, y).item() for x, y in batches(torch.float32)]

    assert made("all") == made("none")


def test_what_torch_checkpoint_computes():
    """Plain torch with torch.utils.checkpoint, one mini-batch after the other, is the independent answer."""
    from grain_cases import net as made
    from torch.utils.checkpoint import checkpoint

    plan = planned(capture(made(), batches()[0][0]), "coarse", 3, "scattered")
    with hyperplace.compile(made(), plan, optimizer=sgd, loss=F.cross_entropy, in_flight=1, recompute="all") as trainer:
        losses = [trainer.step(x, y).item() for x, y in batches()]
        state = trainer.state_dict()

    def forward(plain, x, y):
        first = checkpoint(
            lambda x: F.relu(
                torch.batch_norm(plain.a(x), plain.norm.weight, plain.norm.bias, None, None, True, 0.1, 1e-5, False)
            ),
            x,
            use_reentrant=False,
        )
        rest = checkpoint(
            lambda x: plain.head(F.max_pool2d(x + torch.tanh(plain.b(x)), 2).flatten(1)), first, use_reentrant=False
        )
        return F.cross_entropy(rest, y)

    expected, wanted = plain_loop(made(), forward=forward)
    assert losses == pytest.approx(expected, rel=1e-9)
    expected, wanted = plain_loop(made())
    for name, tensor in wanted.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-12)


def test_a_segment_that_recomputes_keeps_nothing_between_its_passes():
    """Counted by autograd's own hooks: what is saved and not yet dropped when the forward pass has ended."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Tanh(), nn.Flatten())
    net = nn.Sequential(body, nn.Linear(8 * 36, 5))
    plan = hyperplace.place(net, torch.zeros(4, 3, 10, 10), k=1, partitioner="single")
    kept = {}
    for recompute in ("none", "all"):
        with hyperplace.compile(
            net, plan, optimizer=sgd, loss=F.cross_entropy, recompute=recompute, record=True
        ) as trainer:
            rank = trainer.ranks[0]
            called, sizes = rank.segments._lose, []

            def seen(live, segment, results, called=called, rank=rank, sizes=sizes):
                found = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in _graph(results)}
                sizes.append(sum(found.values()))
                called(live, segment, results)

            rank.segments._lose = seen
            trainer.step(torch.randn(4, 3, 10, 10), torch.zeros(4, dtype=torch.int64)).item()
            trainer.flush()
            kinds = {event.kind for event in trainer.timeline().events}
        kept[recompute] = sizes[0]
        assert ("recompute" in kinds) == (recompute == "all")
    assert kept["none"] > 4 * 8 * 64 * 4
    assert kept["all"] == 0


def _graph(results):
    """Yield the tensors that the graph behind some results has saved."""
    todo, seen = [r.grad_fn for r in results if r.grad_fn is not None], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_") and not name.startswith("_raw"):
                value = getattr(node, name)
                yield from [value] if isinstance(value, torch.Tensor) else []
        todo += [other for other, _ in node.next_functions if other is not None]


def test_without_stashed_weights_it_is_refused():
    plan = hyperplace.place(nn.Linear(3, 2), torch.zeros(4, 3), k=1, partitioner="single")
    words = {"optimizer": sgd, "loss": F.cross_entropy, "stash": False, "recompute": "all"}
    with pytest.raises(UsageError, match="segments 0:0 are recomputed, which needs the weights of their forward pass"):
        hyperplace.compile(nn.Linear(3, 2), plan, **words)
    hyperplace.compile(nn.Linear(3, 2), plan, in_flight=1, **words).close()


@pytest.mark.parametrize("word", ["some", "0", "0:1:2", "0:-1", ""])
def test_other_words_are_refused(word):
    plan = hyperplace.place(nn.Linear(3, 2), torch.zeros(4, 3), k=1, partitioner="single")
    with pytest.raises(UsageError, match="is neither none nor all nor parts and segments"):
        hyperplace.generate(nn.Linear(3, 2), plan, recompute=word)
    with pytest.raises(UsageError, match="no segment 7 of part 0"):
        hyperplace.generate(nn.Linear(3, 2), plan, recompute="0:7")


def test_the_text_of_a_program_says_it_and_gives_it_back():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    plan = hyperplace.place(net, torch.zeros(4, 3, 10, 10), k=2, partitioner="horizontal")
    text = hyperplace.generate(net, plan, recompute="0:0,1:0")
    assert text.count("recomputes=True") == 2
    program = hyperplace.load_program(text)
    assert recomputed(program) == ((0, 0), (1, 0))
    assert hyperplace.emit(program) == text
    assert recomputing(program, ()) == hyperplace.lower(net, plan)
