"""Recompute all of a plan that follows from the rest of it; say in the user's words how a plan differs from that."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from hyperplace.errors import HyperplaceError
from hyperplace.values.derived.messages import reductions, transfers
from hyperplace.values.derived.metrics import metrics
from hyperplace.values.derived.replicas import replicas, tied_replicas
from hyperplace.values.derived.routes import routed
from hyperplace.values.derived.shards import arranged
from hyperplace.values.derived.sound import fact_faults, kernel_faults, owner_faults
from hyperplace.values.faults import first_of
from hyperplace.values.plan import Metrics, Plan, PlannedLayer, Reduction, Replica, Transfer
from hyperplace.values.ranges import Ranges

Listed = Transfer | Reduction | Replica


def derived(plan: Plan) -> Plan:
    """Return the plan as it must be: owners and shards in their one form, then messages, replicas and metrics.

    The owners that its replicas name are its choice, and stay where they are possible. Facts that contradict each
    other, and kernels that are computed never or twice, leave nothing to derive: an error.
    """
    _refuse(fact_faults(plan) or kernel_faults(plan))
    layers = tuple(arranged(layer, plan.settings) for layer in plan.layers)
    _refuse(owner_faults(layers, plan.settings.batch))
    found = replace(
        plan,
        layers=layers,
        transfers=transfers(layers, plan.settings),
        reductions=reductions(layers, plan.settings),
        replicas=(*routed(replicas(layers, plan.replicas), plan.settings.hosts), *tied_replicas(layers)),
    )
    return replace(found, metrics=metrics(found))


def _refuse(faults: list[str]) -> None:
    if faults:
        raise HyperplaceError("not a plan: " + first_of(faults))


def differences(plan: Plan) -> list[str]:
    """Return everything that is not as it must be, layer by layer; an empty list for a plan that is right."""
    right = derived(plan)
    return [
        *(text for pair in zip(plan.layers, right.layers, strict=True) for text in _layer(*pair)),
        *_listed(plan.transfers, right.transfers),
        *_listed(plan.reductions, right.reductions),
        *_listed(plan.replicas, right.replicas),
        *_metrics(plan.metrics, right.metrics),
    ]


def _layer(found: PlannedLayer, right: PlannedLayer) -> Iterator[str]:
    for what, one, other in (("owned", found.owners, right.owners), ("computed", found.shards, right.shards)):
        if one != other:
            yield f"{found.name} is {what} by {_pieces(one)} instead of {_pieces(other)}"


def _pieces(pieces: tuple[Any, ...]) -> str:
    return ", ".join(f"part {piece.part} ({_where(piece)})" for piece in pieces) or "nobody"


def _where(piece: Any) -> str:
    """Return the filters, channels and rows of anything that has them."""
    words = [f"filters {_text(piece.filters)}"]
    words += [f"channels {_text(piece.channels)}"] if hasattr(piece, "channels") else []
    words += [f"rows {_text((piece.rows,))}"] if hasattr(piece, "rows") else []
    return ", ".join(words)


def _text(ranges: Ranges) -> str:
    shown = " ".join(f"{start}:{stop}" for start, stop in ranges[:3])
    return f"{shown} and {len(ranges) - 3} more" if len(ranges) > 3 else shown


def _listed(found: Sequence[Listed], right: Sequence[Listed]) -> Iterator[str]:
    """Say which entries are missing, too many, of other amounts, or not in their order."""
    wanted = {_key(entry): entry for entry in right}
    there: dict[tuple[Any, ...], Listed] = {}
    for entry in found:
        key = _key(entry)
        if key in there:
            yield f"{_name(entry)} is there twice"
        elif key in wanted:
            yield from (f"{_name(entry)}: {text}" for text in _unequal(entry, wanted[key]))
        else:
            yield f"{_name(entry)} must not be there"
        there[key] = entry
    yield from (f"{_name(entry)} is missing" for key, entry in wanted.items() if key not in there)
    for key, other in zip(there, wanted, strict=False) if there.keys() == wanted.keys() else ():
        if key != other:
            yield f"{_name(there[key])} is out of order"
            return


def _key(entry: Listed) -> tuple[Any, ...]:
    """Return what tells an entry from all others of its kind."""
    if isinstance(entry, Replica):
        return entry.layer, entry.part, entry.owner, entry.filters
    return entry.layer, entry.source, entry.target, entry.filters, entry.rows


def _name(entry: Listed) -> str:
    if isinstance(entry, Replica):
        route = f"on part {entry.part} with owner {entry.owner}"
    else:
        route = f"from part {entry.source} to {entry.target}"
    return f"the {type(entry).__name__.lower()} of {entry.layer} {route} ({_where(entry)})"


def _metrics(found: Metrics, right: Metrics) -> Iterator[str]:
    if len(found.parts) != len(right.parts):
        yield f"it has metrics of {len(found.parts)} parts instead of {len(right.parts)}"
    for number, (one, other) in enumerate(zip(found.parts, right.parts, strict=False)):
        yield from (f"part {number}: {text}" for text in _unequal(one, other))
    yield from _unequal(replace(found, parts=()), replace(right, parts=()))


def _unequal(found: Any, right: Any) -> Iterator[str]:
    """Say which fields of two values of one kind differ."""
    for field in fields(right):
        one, other = getattr(found, field.name), getattr(right, field.name)
        if one != other:
            yield f"{field.name} is {one} instead of {other}"
