"""Run a captured Graph as if it were the model: layer after layer, from nothing but what the Graph says.

Operands are put together from the outputs of the layers their sources name, calls are run one by one. If the
result is the model's own, the Graph lost nothing; and each layer, run alone, shows by its gradients which channels its
filters read.
"""

import operator
from functools import reduce

import torch

from hyperplace.values.graph import Ref, Rows, Rule

ROWS = 2  # of all inputs


def replay(graph, model, inputs):
    """Return the model's outputs as computed by the graph's layers."""
    state, names = state_of(model), [layer.name for layer in graph.layers if layer.rule is Rule.INPUT]
    outputs = dict(zip(names, inputs, strict=True))
    for layer in graph.layers:
        if layer.rule is not Rule.INPUT:
            values = {operand.value: operand_tensor(operand, outputs, graph) for operand in layer.operands}
            outputs[layer.name] = run_layer(layer, values, state)
    return [operand_tensor(operand, outputs, graph) for operand in graph.outputs]


def state_of(model):
    """Return the parameters and buffers by name, copied: batch norm writes into its own."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return {name: tensor.detach().clone() for name, tensor in named}


def run_layer(layer, values, state):
    """Run the layer's calls on its operands by name and return the last result."""
    known = {name: tensor.clone() for name, tensor in values.items()}
    result = None
    for call in layer.calls:
        args = [_filled(arg, known, state, layer) for arg in call.args]
        kwargs = {name: _filled(arg, known, state, layer) for name, arg in call.kwargs}
        result = known[call.value] = _operation(call.op)(*args, **kwargs)
    if layer.result_values:
        results = [known[name] for name in layer.result_values]
        return results if layer.results else results[0]
    return result


def _operation(op):
    return OPERATIONS.get(op) or reduce(getattr, op.split("."), torch.ops)


def _constant(values, shape, dtype):
    return torch.tensor(values, dtype=dtype).reshape(shape)


OPERATIONS = {"getitem": operator.getitem, "constant": _constant, "store": lambda buffer, value: buffer.copy_(value)}


def _filled(arg, known, state, layer):
    """Return a call's argument with its Refs looked up among what the layer says it has."""
    if isinstance(arg, Ref) and arg.is_state:
        assert arg.name in {p.name for p in layer.parameters}, f"{layer.name} does not list {arg.name}"
        return state[arg.name]
    if isinstance(arg, Ref):
        assert arg.name in known, f"{layer.name} reads {arg.name}, which is none of its operands and calls"
        return known[arg.name]
    if isinstance(arg, Rows):
        return arg.at(ROWS)
    if isinstance(arg, tuple):
        return [_filled(a, known, state, layer) for a in arg]
    return getattr(torch, arg[6:]) if isinstance(arg, str) and arg.startswith("torch.") else arg


def operand_tensor(operand, outputs, graph):
    """Put an operand together from the filters its sources name."""
    pieces = [_source_tensor(source, operand, outputs[source.layer], graph) for source in operand.sources]
    if len(pieces) == 1:
        return pieces[0].reshape(operand.shape)
    return torch.cat([piece.reshape(graph.rows, -1) for piece in pieces], 1).reshape(operand.shape)


def _source_tensor(source, operand, made, graph):
    if isinstance(made, tuple | list):
        made = made[source.result]
    if graph[source.layer].rule is Rule.WHOLE:
        return made
    return made.reshape(graph.rows, graph[source.layer].num_filters, -1)[:, source.start : source.stop]


def dependences(graph, model, layer):
    """Return per operand a grid (filter, channel): whether the filter's output depends on the channel."""
    torch.manual_seed(0)
    leaves = {o.value: torch.randn(o.shape, dtype=torch.float64, requires_grad=True) for o in layer.operands}
    made = run_layer(layer, leaves, state_of(model))
    results = [made] if isinstance(made, torch.Tensor) else made
    rows = graph.rows if layer.num_filters > 1 else 1
    weighed = sum(_weighed(x.reshape(rows, layer.num_filters, -1)) for x in results)
    grids = [torch.zeros(layer.num_filters, o.num_channels, dtype=torch.bool) for o in layer.operands]
    if not weighed.requires_grad:  # cut off, or constant
        return grids
    for number, value in enumerate(weighed):
        grads = torch.autograd.grad(value, list(leaves.values()), retain_graph=True, allow_unused=True)
        for grid, grad in zip(grids, grads, strict=True):
            if grad is not None:
                rows = grad.shape[0] if grid.shape[1] > 1 else 1
                grid[number] = grad.reshape(rows, grid.shape[1], -1).abs().amax((0, 2)) > 0
    return grids


def _weighed(maps):
    """Return one number per filter that depends on all of its map; a plain sum after batch norm would not."""
    return (maps * torch.randn_like(maps)).sum((0, 2))


def claims(layer, operand):
    """Return the grid of `dependences` as the Graph states it."""
    grid = torch.zeros(layer.num_filters, operand.num_channels, dtype=torch.bool)
    for number in range(layer.num_filters):
        ((start, stop),) = layer.channels_read(operand, ((number, number + 1),))
        grid[number, start:stop] = True
    return grid
