"""What steps cost: the passes of a layer's work shared out by cells and kernels, and the bytes they keep in between."""

from collections.abc import Collection

from hyperplace.steps.lower.norms import norm_calls
from hyperplace.steps.lower.steps import Stage, Step
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.plan import Plan
from hyperplace.values.profile import Profile, Work, cost_of_rows, size_and_unit
from hyperplace.values.program import Copy, Piece
from hyperplace.values.ranges import Range, count

# What a weight costs beside its update, in updates. Those are timed as SGD with momentum, which goes over it three
# times; to add a gradient is to go over it once more. What is written to new memory goes over it once too, but the
# first touch of memory takes about as long as the rest of an update.
ADDED, WRITTEN = 1 / 3, 1.0


class Costs:
    """The costs of a plan's layers: those of a profile, or as the plan itself has them."""

    def __init__(self, graph: Graph, plan: Plan, profile: Profile | None) -> None:
        self._graph, self._batch = graph, plan.settings.batch
        size, self.unit = (1.0, profile.unit) if profile else size_and_unit(plan.metrics.work_unit)
        self._cells: dict[str, Work] = {}  # of all cells of a layer
        self._kernels: dict[str, Work] = {}  # of all its kernels, where these are weighed apart
        self._tails: dict[str, Work] = {}  # what of its cells comes after the anchor, as far as that is known
        self._halves: dict[str, float] = {}  # what half the rows of a layer cost, as a share, where that is known
        for layer, planned in zip(graph.layers, plan.layers, strict=True):
            if profile is None:
                cells, kernels = planned.work, planned.kernel_work
                self._cells[layer.name] = Work(cells.forward, cells.backward, cells.update) * size
                self._kernels[layer.name] = Work(kernels.forward, kernels.backward, kernels.update) * size
                self._tails[layer.name] = Work()
            else:
                cost = profile[layer.name]
                self._halves[layer.name] = cost.half_rows
                self._tails[layer.name] = cost.tail * layer.num_filters
                is_fine = bool(planned.kernel_work.total)
                self._cells[layer.name] = (cost.tail if is_fine else cost.filter) * layer.num_filters
                self._kernels[layer.name] = cost.kernel * _kernels(layer) if is_fine else Work()

    def rounded(self, work: float) -> float:
        """Return work as it stands in a program: whole FLOPs, or tenths of a microsecond."""
        return round(work) if self.unit == "flops" else round(work, 1)

    def passes(self, steps: tuple[Step, ...]) -> Work:
        """Return the work of steps, forward and backward."""
        return sum(map(self._of_step, steps), Work())

    def half_rows(self, steps: tuple[Step, ...]) -> float:
        """Return what some steps cost with half of the rows they have, as a share of what they cost."""
        works = [(self._of_step(step).total, step) for step in steps if step.layer in self._halves]
        total = sum(work for work, _ in works)
        return round(sum(work * self._halved(step) for work, step in works) / total, 4) if total else 0.5

    def _halved(self, step: Step) -> float:
        rows = [tile.rows for tile in step.tiles] + [shard.rows for shard in step.shards]
        half, share = self._halves[step.layer], max(map(_size, rows), default=self._batch) / self._batch
        return cost_of_rows(half, share / 2) / cost_of_rows(half, share)

    def _of_step(self, step: Step) -> Work:
        if step.stage in (Stage.INPUT, Stage.TOTAL, Stage.OUTPUT):
            return Work()
        layer = self._graph[step.layer]
        if step.stage is Stage.PARTIAL:
            area = sum(count(shard.filters) * count(shard.channels) for shard in step.shards)
            return self._kernels[layer.name] * (area / _kernels(layer))
        work = self._cells[layer.name]
        if norms := norm_calls(layer):
            tail = self._tails[layer.name]
            if step.run:
                work = tail / len(norms)
            elif step.is_run:
                work = work - tail
        if step.stage is not Stage.FINISH and not step.shards:
            work = work + self._kernels[layer.name]
        return work * self._share(layer, step)

    def _share(self, layer: Layer, step: Step) -> float:
        """Return the share of a layer's work that a step does: that of its filters, with as many rows as it has."""
        half = self._halves.get(layer.name, 0.5)
        cells = [count(tile.filters) * cost_of_rows(half, _size(tile.rows) / self._batch) for tile in step.tiles]
        return sum(cells) / layer.num_filters

    def update(self, layer: str, piece: Piece, num_borrowers: float = 0.0) -> float:
        """Return the work of updating a piece of a layer's parameters, of which so many other parts have copies.

        Copies are updated by their owner, who adds up their gradients and makes a snapshot for all to see.
        """
        if isinstance(piece, Copy):
            return 0.0
        lending = ADDED * num_borrowers + WRITTEN if num_borrowers else 0.0
        return self._updated(layer, piece) * (1 + lending)

    def joining(self, layer: str, piece: Piece) -> float:
        """Return the work of writing a piece of a layer's parameters beside those of other owners."""
        return WRITTEN * self._updated(layer, piece)

    def _updated(self, layer: str, piece: Piece) -> float:
        total = self._graph[layer].parameter_bytes
        work = self._cells[layer].update + self._kernels[layer].update
        return work * piece.num_bytes / total if total else 0.0

    def saved_bytes(self, steps: tuple[Step, ...]) -> int:
        """Return what steps keep of a planned mini-batch for their backward pass, messages and copies apart."""
        made = [step for step in steps if step.stage in (Stage.COMPUTE, Stage.FINISH) and not step.run]
        return sum(
            count(tile.filters) * count((tile.rows,)) * self._graph[step.layer].saved_bytes
            for step in made
            for tile in step.tiles
        )

    def kept_bytes(self, steps: tuple[Step, ...], keeps: Collection[str]) -> int:
        """Return the bytes of what steps make and later segments of their part take; statistics are next to nothing."""
        return sum(self._made_bytes(step, kept) for step in steps if (kept := [v for v in step.makes if v in keeps]))

    def _made_bytes(self, step: Step, kept: Collection[str]) -> int:
        if step.stage not in (Stage.COMPUTE, Stage.PARTIAL, Stage.FINISH):
            return 0
        layer = self._graph[step.layer]
        pieces = step.shards if step.stage is Stage.PARTIAL else step.tiles
        is_before = step.stage is Stage.PARTIAL or (step.is_run and step.run < len(norm_calls(layer)))
        cells = sum(count(piece.filters) * count((piece.rows,)) for piece in pieces)
        share = len(kept) / len(step.makes) if len(step.makes) == len(pieces) else 1.0
        return round(share * cells) * (layer.partial_bytes if is_before else layer.map_bytes)

    def largest_bytes(self, steps: tuple[Step, ...]) -> int:
        """Return the bytes of the largest tensor that a layer makes in some steps, before its trailing operations."""
        return max((self._largest(step) for step in steps if step.layer), default=0)

    def _largest(self, step: Step) -> int:
        layer = self._graph[step.layer]
        cells = [count(tile.filters) * count((tile.rows,)) for tile in step.tiles]
        cells += [count(shard.filters) * count((shard.rows,)) for shard in step.shards]
        return max(cells, default=0) * max(layer.map_bytes, layer.partial_bytes)


def _kernels(layer: Layer) -> int:
    return layer.num_filters * max(1, layer.operands[0].num_channels // layer.groups)


def _size(rows: Range) -> int:
    return rows[1] - rows[0]
