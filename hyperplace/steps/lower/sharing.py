"""How the weights of a layer are shared where the rows of its filters are apart: who owns them, who has copies."""

from dataclasses import dataclass
from functools import cached_property

from hyperplace.values.derived.replicas import tied_replicas
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan, PlannedLayer, Ranges, Replica
from hyperplace.values.ranges import common, union, without


@dataclass(frozen=True)
class Sharing:
    """A layer of which some filters' rows are on several parts."""

    planned: PlannedLayer
    replicas: tuple[Replica, ...]

    def filters(self, part: int) -> Ranges:
        """Return the filters of which a part has any rows."""
        return union([owner.filters for owner in self.planned.owners if owner.part == part])

    def groups(self, part: int) -> tuple[tuple[int, Ranges], ...]:
        """Return a part's filters by the part that owns their weights, its own first."""
        if part not in self._groups:
            self._groups[part] = self._found_groups(part)
        return self._groups[part]

    @cached_property
    def _groups(self) -> dict[int, tuple[tuple[int, Ranges], ...]]:
        return {}  # asked for again and again

    def _found_groups(self, part: int) -> tuple[tuple[int, Ranges], ...]:
        copies = [(replica.owner, replica.filters) for replica in self.replicas if replica.part == part]
        owned = without(self.filters(part), union([filters for _, filters in copies]))
        return (*([(part, owned)] if owned else []), *copies)

    def via(self, part: int, owner: int) -> int | None:
        """Return by which other part a part exchanges its copies of an owner's weights; None for the owner itself."""
        return self._via.get((part, owner))

    @cached_property
    def _via(self) -> dict[tuple[int, int], int | None]:
        return {(replica.part, replica.owner): replica.via for replica in self.replicas}

    def owned(self, part: int) -> Ranges:
        """Return the filters whose weights a part owns."""
        return next((filters for owner, filters in self.groups(part) if owner == part), ())

    def rows(self, part: int, filter_: int) -> Ranges:
        """Return which rows of a filter a part has."""
        mine = [owner for owner in self.planned.owners if owner.part == part]
        return tuple(sorted(o.rows for o in mine if common(o.filters, ((filter_, filter_ + 1),))))

    @property
    def edges(self) -> set[int]:
        """Return the filters at which something changes."""
        return {edge for owner in self.planned.owners for span in owner.filters for edge in span}

    @property
    def exchanges_statistics(self) -> bool:
        return any(replica.statistics_bytes for replica in self.replicas)


def tied_owners(graph: Graph, plan: Plan) -> dict[str, int]:
    """Return who owns every trained parameter that several layers use: the part of the first of them."""
    users: dict[str, list[PlannedLayer]] = {}
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        for parameter in layer.parameters:
            if parameter.trained:
                users.setdefault(parameter.name, []).append(planned)
    return {name: layers[0].owners[0].part for name, layers in users.items() if len(layers) > 1}


def sharings(plan: Plan) -> dict[str, Sharing]:
    """Return how every layer with replicas is shared."""
    replicas: dict[str, list[Replica]] = {}
    tied = set(tied_replicas(plan.layers))  # which are of whole parameters, and have nothing to do with rows
    for replica in plan.replicas:
        if replica not in tied:
            replicas.setdefault(replica.layer, []).append(replica)
    return {p.name: Sharing(p, tuple(replicas[p.name])) for p in plan.layers if p.name in replicas}
