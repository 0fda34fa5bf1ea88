"""Train copies of a model on shares of the data, and average their weights after every epoch.

The nodes take turns in this process: the training is real, and its accuracy does not depend on who runs when.
What it would take on machines of their own, a simulation says.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from hyperplace.data import batches
from hyperplace.errors import TrainingError, UsageError
from hyperplace.training.epoch import Epoch, Progress
from hyperplace.training.learner import Judge, PlainLearner
from hyperplace.training.run import sgd
from hyperplace.training.sets import Sets
from hyperplace.training.settings import TrainSettings
from hyperplace.values.arrays import Ints
from hyperplace.values.images import Images

OnEpoch = Callable[[int, float], None]  # how many are done, the accuracy


def train_averaged(
    make: Callable[[int], nn.Module],
    settings: TrainSettings,
    sets: Sets,
    num_nodes: int,
    on_epoch: OnEpoch = lambda epoch, accuracy: None,
) -> float:
    """Return the accuracy of the averaged model after all epochs; `make` makes it with a seed's weights.

    Every node keeps its own momentum. With one node this is the plain loop.
    """
    shares = split_images(sets.train, num_nodes, settings.seed)
    models = [make(settings.seed) for _ in shares]
    nodes = [PlainLearner(model, sgd(settings)(model.parameters()), Judge()) for model in models]
    accuracy = 0.0
    for epoch in range(settings.epochs):
        for learner, share in zip(nodes, shares, strict=True):
            _run_epoch(learner, share, settings, sets, epoch)
        average_weights(models)
        accuracy = _accuracy(nodes[0], settings, sets)
        on_epoch(epoch + 1, accuracy)
    return accuracy


def split_images(images: Images, num_shares: int, seed: int) -> list[Images]:
    """Return shares of the images that differ by one at most; together they are all."""
    if not 1 <= num_shares <= len(images):
        raise UsageError(f"{len(images)} images cannot be split over {num_shares} nodes; give 1 to {len(images)}")
    order = np.random.default_rng(seed).permutation(len(images)) if num_shares > 1 else np.arange(len(images))
    return [_chosen(images, order[first::num_shares]) for first in range(num_shares)]


def folds(sets: Sets, number: int, seed: int) -> Iterator[Sets]:
    """Yield sets for cross-validation: each time another share of the training images judges the model."""
    if not 2 <= number <= len(sets.train):
        raise UsageError(f"{len(sets.train)} images cannot be cut into {number} folds; give 2 to {len(sets.train)}")
    order = np.random.default_rng(seed).permutation(len(sets.train))
    for first in range(number):
        is_test = np.arange(len(order)) % number == first
        yield replace(sets, train=_chosen(sets.train, order[~is_test]), test=_chosen(sets.train, order[is_test]))


def _chosen(images: Images, rows: Ints) -> Images:
    return replace(images, x=images.x[rows], y=images.y[rows])


def _run_epoch(learner: PlainLearner, share: Images, settings: TrainSettings, sets: Sets, epoch: int) -> None:
    total = 0.0
    for x, y in batches(share, settings.batch, seed=settings.seed, epoch=epoch, shape=sets.shape):
        total += learner.step(x, y).item()
    if not np.isfinite(total):
        raise TrainingError(f"the loss of epoch {epoch + 1} is {total}; lower --lr")


@torch.no_grad()
def average_weights(models: Sequence[nn.Module]) -> None:
    """Give all models the mean of their parameters and buffers; counts, which are no fractions, are the first one's."""
    states: list[dict[str, Tensor]] = [model.state_dict() for model in models]
    for name, first in states[0].items():
        tensors = [state[name] for state in states]
        mean = torch.stack(tensors).mean(0) if first.is_floating_point() else first.clone()
        for tensor in tensors:
            tensor.copy_(mean)


def _accuracy(learner: PlainLearner, settings: TrainSettings, sets: Sets) -> float:
    return Epoch(learner, Judge(), Progress("averaged"), settings, sets, lambda shown: None).test() or 0.0
