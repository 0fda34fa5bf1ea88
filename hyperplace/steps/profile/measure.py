"""Measure the work of every layer on this machine: forward, backward and update, and what slices of it cost.

Every layer is run by itself on made-up tensors, with few rows where it is heavy; seconds are scaled to the batch.
"""

import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from math import prod

import torch

from hyperplace.errors import UsageError
from hyperplace.steps.profile.pieces import Unrunnable, anchor_piece, sliced_piece, tail_piece
from hyperplace.steps.profile.stopwatch import time_piece, time_update
from hyperplace.steps.profile.work import Slice, estimated_cost, half_channels, half_filters, measured_cost
from hyperplace.values.graph import Graph, Layer, Rule
from hyperplace.values.profile import LayerCost, Profile, Timing, Work, machine_line, middle_timing

# A guess of a processor's pace, only to choose the number of rows; a run should take about ENOUGH_WORK_S.
_FLOPS_PER_S = 1e11
_SECONDS_PER_BYTE = 4e-10  # every byte of a map passes through memory several times
_ENOUGH_WORK_S = 0.02
_LINEAR_ROWS = 32  # with fewer rows a linear layer spends its time reading weights, which does not scale
_PACE_UNKNOWN = 6 / _FLOPS_PER_S  # seconds per multiply-add where no layer could be run

OnLayer = Callable[[int, int, str], None]


def measure(
    graph: Graph,
    batch: int,
    *,
    device: str = "cpu",
    threads: int | None = None,
    rounds: int = 1,
    on_layer: OnLayer | None = None,
) -> Profile:
    """Return the measured profile in microseconds for mini-batches of `batch` rows; see work.py for what they mean.

    `threads` None means as many as torch uses now. All layers are run in every round, and their times are the middle of
    the rounds, for machines whose pace changes from one second to the next. `on_layer` hears (layers done, layers to
    do, name) after each layer. A layer that cannot be run is estimated from its multiply-adds, and its `note` says so.
    """
    _check(batch, device, threads, rounds)
    answers: list[LayerCost | Unrunnable] = []
    with _settings(threads):
        machine = machine_line(device)
        for _ in range(rounds):
            bench = _Bench(graph, device)
            for layer in graph.layers:
                answers.append(_answer(bench, layer, batch))
                if on_layer:
                    on_layer(len(answers), rounds * len(graph.layers), layer.name)
    num_layers = len(graph.layers)
    middles = [_middle(layer, answers[number::num_layers], batch) for number, layer in enumerate(graph.layers)]
    return Profile("measured", "us", batch, _completed(graph, middles, batch), machine)


def _check(batch: int, device: str, threads: int | None, rounds: int) -> None:
    if rounds < 1:
        raise UsageError(f"rounds {rounds} is less than 1; give how often every layer is to be measured")
    if batch < 1:
        raise UsageError(f"batch {batch} is less than 1; give the rows of one mini-batch")
    if threads is not None and threads < 1:
        raise UsageError(f"threads {threads} is less than 1; give how many threads a layer may use")
    try:
        torch.ones(1, device=device).sum().item()
    except (RuntimeError, AssertionError, NotImplementedError) as fault:
        reason = str(fault).partition("\n")[0]
        raise UsageError(f"device {device!r} cannot be used: {reason}; choose cpu, or cuda where it works") from fault


@contextmanager
def _settings(threads: int | None) -> Iterator[None]:
    """Set what a measurement needs, and leave the threads, random numbers and warnings of the caller as they were."""
    former = torch.get_num_threads()
    with torch.random.fork_rng(), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_num_threads(threads or former)
        try:
            yield
        finally:
            torch.set_num_threads(former)


class _Bench:
    """Time the pieces of a graph's layers, equal ones once."""

    def __init__(self, graph: Graph, device: str) -> None:
        self._graph = graph
        self._time = cache(partial(time_piece, device=device))
        self._update_s = cache(partial(time_update, device=device))
        self.rows = graph.rows

    def timing(self, layer: Layer, rows: int) -> tuple[Timing, str]:
        """Return the layer's seconds with so many rows, and a note where its slices could not be run."""
        anchor, tail = self._time(anchor_piece(self._graph, layer, rows)), tail_piece(self._graph, layer, rows)
        passes = self._time(tail).passes_s if tail else Work()
        filters_s, filters_note = self._slice_s(layer, rows, half_filters(layer))
        channels_s, channels_note = self._slice_s(layer, rows, half_channels(layer))
        timing = Timing(
            rows=rows,
            repeats=anchor.repeats,
            anchor_s=anchor.passes_s,
            tail_s=passes,
            update_s=self._update_s(tuple(p.shape for p in layer.parameters if p.trained)),
            half_filters_s=filters_s,
            half_channels_s=channels_s,
            half_rows_s=self._half_rows_s(layer, rows),
            spread=anchor.spread,
        )
        return timing, filters_note or channels_note

    def _half_rows_s(self, layer: Layer, rows: int) -> Work:
        if rows < 2 or layer.rule is Rule.WHOLE:
            return Work()
        pieces = anchor_piece(self._graph, layer, rows // 2), tail_piece(self._graph, layer, rows // 2)
        return sum((self._time(piece).passes_s for piece in pieces if piece), Work())

    def _slice_s(self, layer: Layer, rows: int, slice_: Slice | None) -> tuple[Work, str]:
        if slice_ is None:
            return Work(), ""
        try:
            return self._time(sliced_piece(self._graph, layer, rows, slice_)).passes_s, ""
        except Unrunnable as reason:
            return Work(), f"slices not run ({reason}); shared out evenly"


def _answer(bench: _Bench, layer: Layer, batch: int) -> LayerCost | Unrunnable:
    """Measure with the rows that suit the layer, then with those it was captured with, which always fit its calls."""
    if layer.rule is Rule.INPUT:
        return LayerCost(layer.name, Work())
    fault = Unrunnable()
    for rows in dict.fromkeys((_rows(layer, batch, bench.rows), bench.rows)):
        try:
            timing, note = bench.timing(layer, rows)
            return measured_cost(layer, timing, batch, note)
        except Unrunnable as reason:
            fault = reason
    return fault


def _middle(layer: Layer, answers: list[LayerCost | Unrunnable], batch: int) -> LayerCost | Unrunnable:
    """Return the middle of what every round said of a layer."""
    costs = [answer for answer in answers if isinstance(answer, LayerCost)]
    timings = [cost.timing for cost in costs if cost.timing]
    if len(timings) < 2 or len(timings) < len(answers) or len({timing.rows for timing in timings}) > 1:
        return answers[0]
    return measured_cost(layer, middle_timing(timings), batch, costs[0].note)


def _rows(layer: Layer, batch: int, captured: int) -> int:
    """Return the largest power of two of rows, at most the batch, that a run has time for; at least one."""
    if layer.rule is Rule.WHOLE:
        # Its calls may have the captured rows baked in anywhere; aten.lstm for one does not check and writes
        # beyond its memory.
        return captured
    maps = layer.num_filters * layer.saved_bytes + sum(4 * prod(operand.shape[1:]) for operand in layer.operands)
    seconds = 6 * layer.macs / _FLOPS_PER_S + maps * _SECONDS_PER_BYTE
    most = _ENOUGH_WORK_S / seconds if seconds else batch
    if layer.kind == "linear" and layer.sums_channels:
        most = max(most, _LINEAR_ROWS)
    return 1 << (int(max(min(most, batch), 1)).bit_length() - 1)


def _completed(graph: Graph, answers: list[LayerCost | Unrunnable], batch: int) -> tuple[LayerCost, ...]:
    """Return the costs, with an estimate for every layer that could not be run."""
    paces = [
        cost.filter_work * layer.num_filters / (layer.macs * batch * 1e6)
        for layer, cost in zip(graph.layers, answers, strict=True)
        if isinstance(cost, LayerCost) and layer.macs
    ]
    pace = statistics.median(paces) if paces else _PACE_UNKNOWN
    return tuple(
        cost if isinstance(cost, LayerCost) else estimated_cost(layer, pace, batch, str(cost))
        for layer, cost in zip(graph.layers, answers, strict=True)
    )
