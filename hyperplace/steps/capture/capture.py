"""Turn a model and a sample input into a Graph by way of torch.export.

torch.export gives the training program as a flat list of ATen calls. The tracer walks it once; this file only
calls torch and says in one line why a model cannot be exported.
"""

import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from hyperplace.errors import UsageError
from hyperplace.steps.capture.alone import alone
from hyperplace.steps.capture.export import Exported, export, export_for
from hyperplace.steps.capture.faithful import evaluates_alike, takes_one_row, watched
from hyperplace.steps.capture.saved import saved_bytes
from hyperplace.steps.capture.sizes import UnknownSize
from hyperplace.steps.capture.tracer import Tracer
from hyperplace.values.graph import Graph


def capture(model: nn.Module, sample: Any, *, tries_uses: bool = False) -> Graph:
    """Return the layers of the model, in training mode, for a sample input.

    The sample is a tensor, a tuple of arguments, or a dict of keyword arguments; of every tensor in it dimension 0 is
    the batch, dimension 1 the channels. Nothing is computed: tensors on the meta device serve as well as real ones.
    Whether the model does the same with one row, and in evaluation mode, is only found out where `tries_uses`.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    args, kwargs = _arguments(sample)
    rows = _rows((args, kwargs))
    with alone(), _training(model), _quiet():
        with watched(model) as asks_for_mode:
            exported = export(model, args, kwargs, rows)
        try:
            graph = _traced(exported, max(rows, 2))
        except UnknownSize:
            exported = export_for(model, args, kwargs, rows)
            graph = _traced(exported, rows)
        if not tries_uses:
            return graph
        if graph.fewest_rows == 1 and not graph.has_fixed_rows and not takes_one_row(model, (args, kwargs), exported):
            graph = replace(graph, fewest_rows=2)
        if not asks_for_mode:
            return graph
        model.eval()
        return replace(graph, evaluates=evaluates_alike(model, (args, kwargs), rows, exported))


def _arguments(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(sample, Mapping):
        return (), dict(sample)
    return (tuple(sample) if isinstance(sample, list | tuple) else (sample,)), {}


def _rows(sample: Any) -> int:
    tensors = [x for x in tree_leaves(sample) if isinstance(x, torch.Tensor)]
    if not tensors or any(x.ndim < 1 for x in tensors):
        raise UsageError("the sample has no batch; give a tensor of shape (rows, channels, ...), or a tuple of them")
    rows = {int(x.shape[0]) for x in tensors}
    if len(rows) > 1:
        raise UsageError(f"the sample's tensors have different numbers of rows {sorted(rows)}; give them one batch")
    if any(not x.numel() for x in tensors):
        raise UsageError(f"the sample has no elements, its shapes are {[tuple(x.shape) for x in tensors]}; give some")
    return rows.pop()


def _traced(exported: Exported, rows: int) -> Graph:
    """Trace the program; once more where layers turn out to share parameters."""
    if exported.fewest_rows == exported.most_rows:
        rows = exported.fewest_rows
    saved, tied = saved_bytes(exported, rows), set[str]()
    while True:
        tracer = Tracer(exported, rows, saved, tied)
        graph = tracer.graph()
        if set(tracer.shared_parameters()) <= tied:
            return graph
        tied |= set(tracer.shared_parameters())


@contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    """Put the model into training mode, and each of its modules back into its own afterwards.

    Of a model that is in training mode, a module that is not (a frozen batch norm) is meant to be so.
    """
    modes = {module: module.training for module in model.modules()}
    if not model.training:
        model.train()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's warnings and graph dumps, which speak of its own internals, out of the user's terminal."""
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
