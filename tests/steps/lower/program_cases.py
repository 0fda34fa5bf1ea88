"""Plans of small models, their programs, and the plain loop they must equal."""

import copy

import numpy as np
import torch

from hyperplace.compiling import runnable
from hyperplace.runtime import RunSettings, Trainer, Training
from hyperplace.steps.build import build
from hyperplace.steps.partition import partition
from hyperplace.steps.place import place
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings


def planned(graph, grain, k, how, *, blocks=None, batch=None, seed=1, row_blocks=3, hosts=()):
    """Return a plan of the graph: `how` is a baseline partitioner, `scattered` or `contiguous`."""
    batch = batch or graph.rows
    profile = count_flops(graph, batch)
    h = build(graph, profile, grain=grain, blocks=blocks, row_blocks=row_blocks)
    if how == "scattered":
        found = Partition(np.random.default_rng(seed).integers(0, k, h.num_vertices), k)
    elif how == "contiguous":
        found = Partition(np.minimum(np.arange(h.num_vertices) * k // h.num_vertices, k - 1), k)
    else:
        found = partition(h, k, 100.0, partitioner=how, seed=seed)
    settings = Settings(
        model="net", k=k, imbalance=0.1, grain=grain, partitioner=how, costs="flops", batch=batch, hosts=hosts
    )
    return place(graph, profile, layout_of(h, found, batch), settings)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05)


def trainer_of(graph, plan, model, loss, *, optimizer=sgd, training=None, **settings):
    """Return a trainer of the plan's program, with one mini-batch in flight unless told otherwise."""
    chosen, training = RunSettings(**{"schedule": "async", "in_flight": 1, **settings}), training or Training(optimizer)
    return Trainer(runnable(graph, plan), model.state_dict(), training=training, loss=loss, settings=chosen)


def flat(outputs):
    """Return the tensors of whatever a model returns."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    inner = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for one in inner for tensor in flat(one)]


def wavy_loss(outputs, target):
    """Return a loss to which every element of every output adds something of its own."""
    return sum((t * torch.cos(torch.arange(t.numel(), dtype=t.dtype)).reshape(t.shape)).sum() for t in flat(outputs))


def plain_step(model, inputs, target, loss, optimizer=sgd):
    """Return what one step of a plain loop leaves: the loss, and the model after it."""
    model = copy.deepcopy(model)
    stepper = optimizer(model.parameters())
    value = loss(model(*inputs), target)
    value.backward()
    stepper.step()
    return value.item(), model


def largest_difference(one, other):
    """Return how far two state dicts are apart at most, relative to the size of the numbers."""
    assert one.keys() == other.keys()
    return max(float((one[n] - other[n]).abs().max() / max(1, other[n].abs().max())) for n in one if one[n].numel())
