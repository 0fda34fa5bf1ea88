"""Turn a model and a sample input into a Graph by way of torch.export.

torch.export gives the training program as a flat list of ATen calls. The tracer walks it once; this file only
calls torch and says in one line why a model cannot be exported.
"""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from torch import nn

from hyperplace.errors import ModelError, UsageError
from hyperplace.steps.capture.saved import saved_bytes
from hyperplace.steps.capture.tracer import Tracer
from hyperplace.values.graph import Graph


def capture(model: nn.Module, sample: Any) -> Graph:
    """Return the layers of the model, in training mode, for a sample input (a tensor or a tuple of them).

    The sample's dimension 0 is the batch, dimension 1 the channels. Nothing is computed: tensors on the meta
    device serve as well as real ones.
    """
    inputs = tuple(sample) if isinstance(sample, list | tuple) else (sample,)
    rows = _rows(inputs)
    with _training(model), _quiet():
        program = _export(model, inputs)
        saved = saved_bytes(program)
    return Tracer(program, rows, saved).graph()


def _rows(inputs: tuple[Any, ...]) -> int:
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    if not tensors or any(x.ndim < 1 for x in tensors):
        raise UsageError("the sample has no batch; give a tensor of shape (rows, channels, ...), or a tuple of them")
    rows = {int(x.shape[0]) for x in tensors}
    if len(rows) > 1:
        raise UsageError(f"the sample's tensors have different numbers of rows {sorted(rows)}; give them one batch")
    return rows.pop()


def _export(model: nn.Module, inputs: tuple[Any, ...]) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(model, inputs)
    except Exception as fault:  # whatever the model's own code raises while torch runs it
        lines = [line.strip() for line in str(fault).splitlines() if line.strip()] or ["no reason given"]
        kind = type(fault).__name__
        raise ModelError(
            f"torch.export cannot capture {type(model).__name__}: {kind}: {lines[0]}; "
            "run torch.export.export(model, (sample,)) for the whole story"
        ) from fault


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
