"""Random models from a seed: a list of operations, drawn one by one to fit what is there, interpreted in forward."""

import random

import torch
from habit import BATCH, Habit
from random_draft import Draft, RandomModel
from random_layers import activation, attention, conv, cut, gate, join_two, norm, pool, resize, scale, transposed
from random_traps import (
    batch_constant,
    call_again,
    count,
    fold_into_rows,
    lifted_tensor,
    use_rows,
    without_gradient,
    write_in_place,
    write_into_zeros,
    write_state,
)
from torch import nn


def random_habit(seed: int) -> Habit:
    """Return a random model as a habit that the harness runs."""
    model = random_model(seed)
    inputs = tuple(tuple(shape) for shape in model.input_shapes)
    return Habit(f"random {seed}", "random", lambda: random_model(seed), inputs)


def random_model(seed: int) -> RandomModel:
    """Return the model of a seed, in training mode."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    channels = chance.choice((2, 4, BATCH))
    shapes = [(channels, 8, 8)] * chance.choice((1, 1, 1, 2))
    model = RandomModel(len(shapes))
    model.input_shapes = list(shapes)
    draft = Draft(chance, model, list(shapes))
    conv(draft, draft.last())
    for _ in range(chance.randint(2, 8)):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        kind(draft, draft.last())
    _head(draft)
    model.train()
    for name in draft.stopped:
        model.layers[name].eval()
    return model


def _head(draft: Draft) -> None:
    """End in one or two outputs: maps, or features of a linear layer."""
    at = draft.maps()[-1]
    if draft.chance.random() < 0.7:
        name = draft.layer(nn.Linear(draft.shapes[at][0], draft.chance.choice((3, BATCH))))
        out = draft.add(f"{name} linear of means", (at,), lambda net, x: net.layers[name](x.mean((2, 3))))
    else:
        out = at
    draft.model.outputs, draft.model.names_outputs = [out], draft.chance.random() < 0.2
    if draft.chance.random() < 0.2:
        draft.model.outputs.append(draft.chance.choice([n for n in draft.maps() if n >= draft.model.num_inputs]))


KINDS = {
    conv: 4,
    transposed: 1,
    norm: 3,
    activation: 3,
    write_in_place: 2,
    write_into_zeros: 1,
    pool: 1,
    resize: 1,
    join_two: 4,
    gate: 1,
    call_again: 2,
    batch_constant: 3,
    use_rows: 2,
    fold_into_rows: 1,
    write_state: 3,
    count: 1,
    scale: 1,
    cut: 2,
    attention: 1,
    lifted_tensor: 1,
    without_gradient: 1,
}
