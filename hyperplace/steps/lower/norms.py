"""Where batch norms over rows that several parts have cut a layer's calls, and what is carried over the cuts."""

from itertools import pairwise

from hyperplace.steps.lower.calls import op_name, refs
from hyperplace.steps.lower.steps import Tile
from hyperplace.steps.lower.text import Names
from hyperplace.values.graph import Call, Layer


def is_norm(call: Call) -> bool:
    """Say whether a call is a batch norm by the statistics of the rows at hand."""
    return op_name(call) == "batch_norm" and call.args[5] is True


def norm_calls(layer: Layer) -> list[int]:
    """Return the positions of a layer's batch norms."""
    return [number for number, call in enumerate(layer.calls) if is_norm(call)]


def runs(layer: Layer) -> list[tuple[Call, ...]]:
    """Return a layer's calls cut before every batch norm."""
    cuts = [0, *norm_calls(layer), len(layer.calls)]
    return [layer.calls[start:stop] for start, stop in pairwise(cuts)]


def norm_width(layer: Layer, run: int) -> int:
    """Return how many channels each filter has in the norm after a run."""
    return runs(layer)[run + 1][0].shape[1] // layer.num_filters


def numbered(layer: Layer, run: int) -> tuple[int, ...]:
    """Return what to add to the names of a norm's statistics: its number, if the layer has several."""
    return (run,) if len(norm_calls(layer)) > 1 else ()


def read_in_run(layer: Layer, run: int) -> set[str]:
    """Return the values that a run reads; the input of the norm after it too, for its statistics."""
    pieces = runs(layer)
    names = {ref.name for call in pieces[run] for ref in refs(call) if not ref.is_state}
    return names | ({pieces[run + 1][0].args[0].name} if run + 1 < len(pieces) else set())


def carried(layer: Layer, run: int) -> list[str]:
    """Return the values that calls of this run or an earlier one make and those of a later run read."""
    pieces = runs(layer)
    made = [call.value for piece in pieces[: run + 1] for call in piece]
    read = {ref.name for piece in pieces[run + 1 :] for call in piece for ref in refs(call) if not ref.is_state}
    return [value for value in made if value in read]


def carried_name(names: Names, value: str, tile: Tile) -> str:
    """Return the variable of a value on its way to a later run."""
    return names(tile.variable, value)
