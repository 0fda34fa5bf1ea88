"""The code of batch norms over rows that several parts have: statistics of some rows, of all rows, and their use."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from hyperplace.steps.lower.calls import arguments
from hyperplace.steps.lower.holdings import Held, Slice, pick
from hyperplace.steps.lower.norms import numbered
from hyperplace.steps.lower.operands import lines_text, slice_text
from hyperplace.steps.lower.pieces import Pieces, scaled
from hyperplace.steps.lower.sharing import Sharing
from hyperplace.steps.lower.steps import PartSteps, Step, Tile
from hyperplace.steps.lower.text import Lines, Names, joined
from hyperplace.values.graph import Call, Layer, Ref
from hyperplace.values.plan import Ranges
from hyperplace.values.ranges import common, cut_at


@dataclass(frozen=True)
class Known:
    """Statistics that a tensor has of filters, with the rows of each that they were taken from."""

    held: Held
    rows: Callable[[int], Ranges]


class NormText:
    """Write the batch norms of one layer on one part."""

    def __init__(self, layer: Layer, part: PartSteps, sharing: Sharing, pieces: Pieces, names: Names) -> None:
        self._layer, self._part, self._sharing = layer, part, sharing
        self._pieces, self._names = pieces, names

    def write_statistics(self, step: Step, tile: Tile, x: str, lines: Lines) -> None:
        """Write the statistics of what the norm sees of one tile."""
        lines.let(self._statistics_of(step, tile).variable, f"runtime.statistics({x})")

    def write_own(self, step: Step, call: Call, lines: Lines) -> None:
        """Write the statistics of the part's own rows of all its filters from those of its tiles."""
        own = self._part.statistics[self._layer.name, step.run][0]
        known = [Known(self._statistics_of(step, tile), _always(tile)) for tile in step.tiles]
        lines.let(own.variable, self._joint(own.filters, known, call))

    def _statistics_of(self, step: Step, tile: Tile) -> Held:
        own = self._part.statistics[self._layer.name, step.run][0]
        variable = self._names(tile.variable, "statistics", *numbered(self._layer, step.run))
        return own if len(step.tiles) == 1 else replace(own, variable=variable, filters=tile.filters)

    def write_total(self, step: Step, call: Call, lines: Lines) -> None:
        """Write the statistics of all rows of the filters whose weights the part owns."""
        known = [Known(held, self._rows_of(held)) for held in self._part.statistics[self._layer.name, step.run]]
        lines.let(step.makes[0], self._joint(self._sharing.owned(self._part.part), known, call))

    def _rows_of(self, held: Held) -> Callable[[int], Ranges]:
        """Return the rows that statistics were taken from: those of the part that made them."""
        message = self._part.received.get(held.variable)
        part = message.source if message else self._part.part
        return lambda filter_: self._sharing.rows(part, filter_)

    def _joint(self, filters: Ranges, known: list[Known], call: Call) -> str:
        """Return the statistics of filters from those of several pieces; runs with the same ones together."""
        found: list[tuple[list[Slice], list[Ranges]]] = []
        for span in cut_at(filters, self._sharing.edges):
            having = [one for one in known if common((span,), one.held.filters)]
            terms = [pick(self._layer.name, (span,), one.held.rows, [one.held])[0][0] for one in having]
            _extend(found, terms, [one.rows(span[0]) for one in having])
        return joined([_joint_text(terms, rows, _width(self._layer, call)) for terms, rows in found])

    def track(self, call: Call, run: int, lines: Lines) -> None:
        """Write how the running statistics follow, once for every piece of them that the part has."""
        named = arguments(call)
        if not isinstance(named.get("running_mean"), Ref):
            return
        values = math.prod(call.shape[2:])
        for filters in self._tracked():
            cuts = {0: scaled(filters, _width(self._layer, call))}
            mean, variance = (
                self._pieces.text(self._layer, named[name].name, cuts) for name in ("running_mean", "running_var")
            )
            mine = self._sharing.rows(self._part.part, filters[0][0])
            rows = "self.num_rows" if self._sharing.exchanges_statistics else f"({count_text(mine)})"
            count = rows if values == 1 else f"{values} * {rows}"
            total = self._total(call, filters, run)
            words = f"mean={mean}, variance={variance}, momentum={named['momentum']!r}, count={count}"
            lines.add(f"runtime.track({total}, self, {words})")

    def _tracked(self) -> list[Ranges]:
        """Return the filters whose running statistics follow together; without an exchange those of the same rows."""
        groups = [filters for _, filters in self._sharing.groups(self._part.part)]
        if self._sharing.exchanges_statistics:
            return groups
        return [(span,) for filters in groups for span in cut_at(filters, self._sharing.edges)]

    def normalised(self, call: Call, x: str, tile: Tile, run: int) -> str:
        """Return the norm of a tile by the statistics of all rows."""
        named, cuts = arguments(call), {0: scaled(tile.filters, _width(self._layer, call))}
        words = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
        texts = [
            f"{word}={self._pieces.text(self._layer, named[name].name, cuts)}"
            for word, name in words.items()
            if isinstance(named.get(name), Ref)
        ]
        total, eps = self._total(call, tile.filters, run), f"eps={named['eps']!r}"
        return f"runtime.normalise({', '.join([x, total, 'self', eps, *texts])})"

    def _total(self, call: Call, filters: Ranges, run: int) -> str:
        held = self._part.totals[self._layer.name, run]
        return lines_text(pick(self._layer.name, filters, held[0].rows, held), _width(self._layer, call))


def _always(tile: Tile) -> Callable[[int], Ranges]:
    return lambda filter_: (tile.rows,)


def _width(layer: Layer, call: Call) -> int:
    """Return how many channels of the norm each filter has."""
    return call.shape[1] // layer.num_filters


def _extend(found: list[tuple[list[Slice], list[Ranges]]], terms: list[Slice], rows: list[Ranges]) -> None:
    """Add the terms of the next filters, to the last run if they go on there."""
    last, last_rows = found[-1] if found else ([], [])
    if rows == last_rows and [(t.variable, t.stop) for t in last] == [(t.variable, t.start) for t in terms]:
        found[-1] = ([replace(a, stop=b.stop) for a, b in zip(last, terms, strict=True)], rows)
    else:
        found.append((terms, rows))


def _joint_text(terms: list[Slice], rows: list[Ranges], width: int) -> str:
    texts = [slice_text(term, width) for term in terms]
    if len(texts) == 1:
        return texts[0]
    return f"runtime.joint(({', '.join(texts)}), ({', '.join(map(count_text, rows))}))"


def count_text(rows: Ranges) -> str:
    """Return how many rows of the mini-batch at hand stand for planned ones."""
    return " + ".join(f"self.count({start}, {stop})" for start, stop in rows)
