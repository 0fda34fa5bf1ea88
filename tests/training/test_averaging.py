"""Data split over nodes: one node is the plain loop, averages are means, and seconds are those worked out by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace.data import batches
from hyperplace.errors import UsageError
from hyperplace.steps.simulate import averaged_epoch_s
from hyperplace.training import TrainSettings, load_sets
from hyperplace.training.averaging import average_weights, folds, split_images, train_averaged
from hyperplace.values.cluster import Cluster, Host, parse_cluster

SETTINGS = TrainSettings(data="synthetic", num_images=96, epochs=3, batch=8, lr=0.02)


def make(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 10))


@pytest.fixture(scope="module")
def sets():
    return load_sets(SETTINGS, [(1, 8, 8)])


def accuracy_of(model, sets):
    model.eval()
    x, y = next(iter(batches(sets.test, len(sets.test), seed=0, epoch=0, shape=sets.shape)))
    return float((model(x).argmax(1) == y).double().mean())


def plain_training(sets, shares):
    """Return copies trained by a loop of torch's own, averaged by hand after every epoch."""
    models = [make(0) for _ in shares]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9) for model in models]
    for epoch in range(SETTINGS.epochs):
        for model, optimizer, share in zip(models, optimizers, shares, strict=True):
            model.train()
            for x, y in batches(share, 8, seed=0, epoch=epoch, shape=sets.shape):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        states = [model.state_dict() for model in models]
        mean = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
        for model in models:
            model.load_state_dict(mean)
    return models


@pytest.mark.parametrize("num_nodes", [1, 2, 4])
def test_it_is_what_a_plain_loop_over_the_shares_gives(sets, num_nodes):
    shares = split_images(sets.train, num_nodes, 0)
    expected = accuracy_of(plain_training(sets, shares)[-1], sets)
    seen = []
    found = train_averaged(make, SETTINGS, sets, num_nodes, lambda epoch, accuracy: seen.append((epoch, accuracy)))
    assert found == pytest.approx(expected)
    assert [epoch for epoch, _ in seen] == [1, 2, 3]
    assert seen[-1][1] == found


@pytest.mark.parametrize("number", [1, 3, 7])
def test_shares_are_equal_and_together_everything(sets, number):
    shares = split_images(sets.train, number, 5)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    every = np.concatenate([share.x for share in shares]).reshape(len(sets.train), -1)
    assert sorted(map(bytes, every)) == sorted(map(bytes, sets.train.x.reshape(len(sets.train), -1)))


def test_every_image_is_kept_from_training_once(sets):
    found = list(folds(sets, 5, 0))
    tested = np.concatenate([own.test.x for own in found]).reshape(len(sets.train), -1)
    assert sorted(map(bytes, tested)) == sorted(map(bytes, sets.train.x.reshape(len(sets.train), -1)))
    assert all(len(own.train) + len(own.test) == len(sets.train) for own in found)


def test_averages_are_means_and_counts_stay_whole():
    models = [make(seed) for seed in range(3)]
    mean = sum(model[4].weight.detach().clone() for model in models) / 3
    average_weights(models)
    for model in models:
        torch.testing.assert_close(model[4].weight.detach(), mean)
        assert model[1].num_batches_tracked.dtype == torch.int64


@pytest.mark.parametrize("num_nodes", [1, 2, 4, 8])
def test_an_epoch_is_the_work_and_two_passes_of_the_weights_over_every_card(num_nodes):
    cluster = Cluster(tuple(Host(f"h{n}", out_rate=1e6, in_rate=1e6, latency_s=1e-3) for n in range(8)))
    found = averaged_epoch_s([10.0] * num_nodes, 8_000_000, cluster)
    expected = 10.0 + (2 * (num_nodes - 1) / num_nodes * 8.0 + 2e-3 if num_nodes > 1 else 0.0)
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_slowest_node_is_waited_for():
    assert averaged_epoch_s([1.0, 5.0], 1000, parse_cluster("2x1")) == pytest.approx(5.0)


def test_more_nodes_or_folds_than_images_are_refused(sets):
    with pytest.raises(UsageError, match="96 images cannot be split over 97 nodes"):
        split_images(sets.train, 97, 0)
    with pytest.raises(UsageError, match="cannot be cut into 1 folds"):
        list(folds(sets, 1, 0))
