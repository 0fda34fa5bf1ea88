"""Turn a model and a sample input into a Graph by way of torch.export.

torch.export gives the training program as a flat list of ATen calls. The tracer walks it once; this file only
calls torch and says in one line why a model cannot be exported.
"""

import io
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from hyperplace.errors import UsageError
from hyperplace.steps.capture.export import Exported, export, export_for, takes_one_row
from hyperplace.steps.capture.saved import saved_bytes
from hyperplace.steps.capture.sizes import UnknownSize
from hyperplace.steps.capture.tracer import Tracer
from hyperplace.values.graph import Graph

_lock = threading.RLock()  # torch.export, and keeping it quiet, are for one thread at a time


def capture(model: nn.Module, sample: Any, *, tries_one_row: bool = False) -> Graph:
    """Return the layers of the model, in training mode, for a sample input.

    The sample is a tensor, a tuple of arguments, or a dict of keyword arguments; of every tensor in it dimension 0 is
    the batch, dimension 1 the channels. Nothing is computed: tensors on the meta device serve as well as real ones.
    Whether the model does the same with one row as with several is only found out where `tries_one_row`.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}; give a torch.nn.Module")
    args, kwargs = _arguments(sample)
    rows = _rows((args, kwargs))
    with _lock, _training(model), _quiet():
        exported = export(model, args, kwargs, rows)
        try:
            return _traced(exported, model, (args, kwargs), max(rows, 2), tries_one_row=tries_one_row)
        except UnknownSize:
            fixed = export_for(model, args, kwargs, rows)
            return _traced(fixed, model, (args, kwargs), rows, tries_one_row=False)


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
    if rows == {0}:
        raise UsageError("the sample has no rows; give at least one")
    return rows.pop()


def _traced(exported: Exported, model: nn.Module, sample: Any, rows: int, *, tries_one_row: bool) -> Graph:
    """Trace the program; once more where layers turn out to share parameters."""
    if exported.fewest_rows == exported.most_rows:
        rows = exported.fewest_rows
    if tries_one_row and exported.fewest_rows == 1 and not takes_one_row(model, sample, exported):
        exported = replace(exported, fewest_rows=2)
    saved, tied = saved_bytes(exported.program), set[str]()
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
