"""Where parts share hosts, gradients are added up on each host and new weights handed on there: the same training."""

from collections import Counter

import pytest
import torch
from replica_programs import BATCH, LR, data, data_parallel, plain, random_layers, trainer_of
from test_replicas_async import assert_equals_simulation, run, simulated

WEIGHT_BYTES = 32  # two by two numbers of eight bytes
HOSTS = {"two each": (0, 0, 1, 1), "in turn": (0, 1, 0, 1), "one and three": (0, 1, 1, 1), "three": (0, 1, 1, 2)}
FLOWS = [
    {"schedule": "async"},
    {"schedule": "sync"},
    {"schedule": "sync", "micro_batches": 2, "in_flight": 2},
    {"schedule": "sync", "clip_norm": 0.05},
    {"schedule": "async", "clip_norm": 0.05},
]


def layers_on(name):
    hosts = HOSTS[name]
    return data_parallel(len(hosts), hosts)


def clipped(parameters):
    """Return plain SGD that clips as the whole model's norm says."""
    parameters = list(parameters)

    class Clipped(torch.optim.SGD):
        def step(self, closure=None):
            torch.nn.utils.clip_grad_norm_(parameters, 0.05)
            return super().step(closure)

    return Clipped(parameters, lr=LR)


@pytest.mark.parametrize("flow", FLOWS, ids=str)
@pytest.mark.parametrize("name", HOSTS)
def test_steps_equal_those_of_the_unsplit_model(name, flow):
    layers, batches = layers_on(name), data(6)
    losses, wanted = plain(layers, batches, **({"optimizer": clipped} if "clip_norm" in flow else {}))
    with trainer_of(layers, **flow) as trainer:
        assert [trainer.step(x, y).item() for x, y in batches] == pytest.approx(losses, abs=1e-12)
        found = trainer.state_dict()
        predicted = trainer.predict(batches[0][0])
    assert all(torch.allclose(found[weight], wanted[weight], rtol=0, atol=1e-12) for weight in wanted)
    assert predicted.shape == (BATCH, 2)


def trees(layers):
    """Return what a mini-batch moves by (way, source, target), counted from who has copies."""
    moved = Counter()
    for layer in layers:
        for part in layer.users:
            relay = layer.relay(part)
            peer = layer.owner if relay in (None, part) else relay
            if part != layer.owner:
                moved["gradients", part, peer] += WEIGHT_BYTES
                moved["weights", peer, part] += WEIGHT_BYTES
    return moved


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("name", HOSTS)
def test_between_hosts_every_weight_goes_once(name, schedule):
    layers, hosts, count = layers_on(name), HOSTS[name], 5
    with trainer_of(layers, schedule=schedule, in_flight=2) as trainer:
        for x, y in data(count):
            trainer.step(x, y)
        trainer.flush()
        moved = trainer.moved_bytes()
    found = Counter({key: size for key, size in moved.items() if key[0] in ("gradients", "weights")})
    assert found == Counter({key: count * size for key, size in trees(layers).items()})
    between = Counter()
    for (way, source, target), size in found.items():
        if hosts[source] != hosts[target]:
            between[way] += size
    each = count * WEIGHT_BYTES * (max(hosts) * len(layers))  # to or from every host but the owner's
    assert between == {"gradients": each, "weights": each}
    copies = sum(len(layer.users) - 1 for layer in layers)
    assert sum(found.values()) == 2 * copies * count * WEIGHT_BYTES, "as without relays"


@pytest.mark.parametrize("in_flight", [1, 2, 4])
@pytest.mark.parametrize("name", HOSTS)
def test_every_update_is_that_of_a_simulation_written_out(name, in_flight):
    layers, batches = layers_on(name), data(11)
    trainer, ticks, updates, leaves, _, _ = run(layers, batches, (3, 7), in_flight=in_flight)
    wanted, seen = assert_equals_simulation(layers, trainer, ticks, updates, batches)
    for (weight, batch), found in leaves.items():
        n = int(weight[1:])
        assert len(found) == len(layers[n].users), "as often as the weight is used"
        assert all(torch.equal(one, found[0]) for one in found), "all replicas see one version"
        assert torch.allclose(found[0], wanted[n][seen[n][batch]], rtol=0, atol=1e-12)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_run_to_the_end_as_simulated(seed):
    layers, batches = random_layers(seed, num_hosts=2 + seed % 2), data(9)
    trainer, ticks, updates, *_ = run(layers, batches, (4,), in_flight=1 + seed % 5)
    assert_equals_simulation(layers, trainer, ticks, updates, batches)


def test_some_random_programs_have_relays_of_parts_that_own_nothing():
    relaying = [
        layer.relay(part) for seed in range(30) for layer in random_layers(seed, 2 + seed % 2) for part in layer.users
    ]
    assert any(relay is not None for relay in relaying)


def test_the_same_run_twice_gives_the_same_bits():
    layers = layers_on("one and three")
    (*_, state, losses), (*_, again, losses_again) = (run(layers, data(20), in_flight=4) for _ in range(2))
    assert losses == losses_again
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_a_state_that_is_loaded_reaches_all_copies():
    layers, batches = layers_on("two each"), data(8)
    with trainer_of(layers, in_flight=3) as trainer:
        for x, y in batches[:4]:
            trainer.step(x, y)
        state = trainer.state_dict()
        losses = [trainer.step(x, y).item() for x, y in batches[4:]]
        trainer.load_state_dict(state)
        assert [trainer.step(x, y).item() for x, y in batches[4:]] == losses


def test_what_is_not_a_relay_would_be_noticed():
    """Were a gradient lost or counted twice on its way, the simulation would be another."""
    layers, batches = layers_on("two each"), data(5)
    trainer, ticks, updates, *_ = run(layers, batches, in_flight=1)
    wanted, _ = simulated(layers, trainer, ticks, batches)
    broken = [tensor + LR * 1e-3 for tensor in wanted[0]]
    assert not torch.allclose(updates[0][0][0], broken[1], rtol=0, atol=1e-12)
