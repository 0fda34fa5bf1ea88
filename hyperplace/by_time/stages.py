"""Pipelines of stages on runs of neighbouring devices, each split by rows, such that the slowest takes least time.

Graph + Profile + Cluster -> Layouts. A stage takes as long as the slower of its devices, which share its work by their
speeds, and its cards, which carry the gradients and new weights of its copies and what comes in and goes out at its
ends. That leaves out what waits for what; the simulation, which judges the layouts, does not.

Where the last stage is on a host with devices of the one before, these may have more rows than their speed says: what
they hand over goes by no card. And where one device has the last stage and time left, it may have rows of the first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.cluster import Cluster
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile

BYTE_PRICES = (1.0, 2.0, 0.0)  # of a byte's time on a card: what waits for it may take longer, or nobody waits
NUM_TAILS = 3  # cuts before which all devices but one share the rows
SHARES = 128  # of the rows, tried for devices near the last stage
WORTHWHILE = 0.99  # of the slowest, and less, is faster
MOST_PARTS = 64  # beyond, tables of pairs of devices become large

Stage = tuple[int, int, int, int]  # layers from and to, devices from and to


def staged_layouts(graph: Graph, costs: Profile, settings: Settings, cluster: Cluster) -> Iterator[tuple[str, Layout]]:
    """Yield the best pipelines, each with its widths as a name: `15-1` is fifteen devices, then one."""
    if not 1 < settings.k <= min(MOST_PARTS, settings.batch):
        return
    known: list[list[Stage]] = []
    for price in BYTE_PRICES:
        table = _Table.of(graph, costs, settings, cluster, price)
        for stages in (_best_stages(table), *_tails(table)):
            if stages not in known and len(stages) > 1:
                known.append(stages)
                name = "-".join(str(end - begin) for _, _, begin, end in stages)
                yield name, _laid_out(graph, table, stages, table.speeds)
                nearer = _nearer(table, cluster, stages)
                if nearer is not None:
                    yield f"{name} near", _laid_out(graph, table, stages, nearer)
                yield from ((f"{name} sharing", _laid_out(graph, table, *one)) for one in _sharing(table, stages))


@dataclass(frozen=True)
class _Table:
    """Sums over layers, and over pairs of devices [first, end]; seconds of a stage are made of them."""

    batch: int
    speeds: Floats  # work per second of every device
    work: Floats  # before every layer, and after the last; so the next two
    fixed: Floats  # work of layers whose rows cannot be apart
    copied_bytes: Floats
    crossing_bytes: Floats  # both ways between what lies before a layer and what follows
    speed: Floats  # of all devices of a pair together
    copy_s: Floats  # of a copied byte on the busiest card
    cross_s: Floats  # of a byte that comes in or goes out

    @classmethod
    def of(cls, graph: Graph, costs: Profile, settings: Settings, cluster: Cluster, price: float) -> "_Table":
        layers, batch, k = graph.layers, settings.batch, settings.k
        work = np.array([costs[layer.name].filter_work * layer.num_filters for layer in layers])
        apart = np.array([graph.splits_rows(layer) for layer in layers])
        speeds = np.array([1 / device.seconds(1.0, costs.unit) for device in cluster.devices[:k]])
        pairs = [[_cards(cluster, range(first, end)) for end in range(k + 1)] for first in range(k)]
        upto = _sums(speeds)
        return cls(
            batch,
            speeds,
            _sums(work),
            _sums(np.where(apart, 0.0, work)),
            _sums(np.array([layer.parameter_bytes for layer in layers], np.float64)),
            _crossing(graph, batch),
            upto[None, :] - upto[:k, None],
            price * np.array([[copy for copy, _ in row] for row in pairs]),
            price * np.array([[cross for _, cross in row] for row in pairs]),
        )

    def seconds(self, first: int, end: int) -> Floats:
        """Return what layers take as a stage on every pair of devices; what ends before it begins takes for ever."""
        work = self.work[end] - self.work[first]
        fixed = self.fixed[end] - self.fixed[first]
        copied = self.copied_bytes[end] - self.copied_bytes[first]
        crossing = self.crossing_bytes[first] + self.crossing_bytes[end]
        with np.errstate(divide="ignore", invalid="ignore"):
            computing = np.maximum(work / self.speed, fixed / self.speeds[:, None])
        found = np.maximum(computing, copied * self.copy_s + crossing * self.cross_s)
        return np.where(self.speed > 0, found, np.inf)

    @property
    def num_layers(self) -> int:
        return len(self.work) - 1


def _sums(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])


def _cards(cluster: Cluster, devices: range) -> tuple[float, float]:
    """Return the seconds of a copied byte on the busiest card of some devices, and of one from or to elsewhere."""
    homes = [cluster.home[device] for device in devices]
    rates = {home: min(cluster.hosts[home].out_rate, cluster.hosts[home].in_rate) for home in homes}
    # Each of n devices owns an nth: a sum of gradients of what a host's own comes from every other host, and new
    # weights of what others own come once; as much goes out.
    shares = {home: homes.count(home) / len(homes) for home in rates}
    busiest = max(
        ((share * (len(rates) - 1) + 1 - share) / rates[home] for home, share in shares.items() if len(rates) > 1),
        default=0.0,
    )
    return busiest, 1 / sum(rates.values()) if rates else 0.0


def _crossing(graph: Graph, batch: int) -> Floats:
    """Return the bytes, with their gradients, that would cross before every layer; none before the first."""
    last = {layer.name: number for number, layer in enumerate(graph.layers)}
    for number, layer in enumerate(graph.layers):
        last |= {source.layer: number for operand in layer.operands for source in operand.sources}
    found = np.zeros(len(graph.layers) + 1)
    for number, layer in enumerate(graph.layers):
        ways = 2 if layer.name in graph.learning else 1
        found[number + 1 : last[layer.name] + 1] += ways * (layer.map_bytes * layer.num_filters * batch)
    return found / 2  # a card sends and receives at once, and forward comes in what backward goes out


def _best_stages(table: _Table) -> list[Stage]:
    """Return the stages whose slowest takes least, by a dynamic programme over layers and devices."""
    num_layers, k = table.num_layers, len(table.speeds)
    best = np.full((num_layers + 1, k + 1), np.inf)
    best[0, 0] = 0.0
    came_from: dict[tuple[int, int], tuple[int, int]] = {}
    for end in range(1, num_layers + 1):
        for first in range(end):
            slowest = np.maximum(best[first, :k, None], table.seconds(first, end))
            device = slowest.argmin(axis=0)
            least = slowest[device, np.arange(k + 1)]
            for stop in np.flatnonzero(least < best[end]).tolist():
                best[end, stop] = least[stop]
                came_from[end, stop] = first, int(device[stop])
    stages, place = [], (num_layers, int(best[num_layers].argmin()))
    while place in came_from:
        before = came_from[place]
        stages.append((before[0], place[0], before[1], place[1]))
        place = before
    return stages[::-1]


def _tails(table: _Table) -> list[list[Stage]]:
    """Return the best cuts after which one device does all the rest."""
    num_layers, k = table.num_layers, len(table.speeds)
    taken = {
        cut: max(table.seconds(0, cut)[0, k - 1], table.seconds(cut, num_layers)[k - 1, k])
        for cut in range(1, num_layers)
    }
    cuts = sorted(taken, key=taken.__getitem__)[:NUM_TAILS]
    return [[(0, cut, 0, k - 1), (cut, num_layers, k - 1, k)] for cut in cuts]


def _nearer(table: _Table, cluster: Cluster, stages: Sequence[Stage]) -> Floats | None:
    """Return how many rows each device has of all, if those on the host of the last stage have more than their share.

    None where there are no such devices in the stage before, or where that makes it no faster.
    """
    (first, cut, begin, stop), (_, end, last, final) = stages[-2:]
    homes, numbers = np.array(cluster.home[: len(table.speeds)]), np.arange(len(table.speeds))
    is_before = (begin <= numbers) & (numbers < stop)
    near, far = is_before & (homes == homes[last]), is_before & (homes != homes[last])
    if len(set(homes[last:final].tolist())) > 1 or not (near.any() and far.any()):
        return None
    near_speed, far_speed = float(table.speeds[near].sum()), float(table.speeds[far].sum())
    work, copied = table.work[cut] - table.work[first], table.copied_bytes[cut] - table.copied_bytes[first]
    shares = np.append(
        np.arange(1, SHARES) / SHARES, near_speed / (near_speed + far_speed)
    )  # of the rows, for those near
    crossing = (1 - shares) * table.crossing_bytes[cut] * table.cross_s[last, final]
    computing = np.maximum(shares / near_speed, (1 - shares) / far_speed) * work
    rest = (table.work[end] - table.work[cut]) / table.speed[last, final]
    slowest = np.maximum(np.maximum(computing, rest), copied * table.copy_s[begin, stop] + crossing)
    best = int(slowest.argmin())
    if slowest[best] > WORTHWHILE * slowest[-1]:
        return None
    found = table.speeds.copy()
    found[near] *= shares[best] / near_speed
    found[far] *= (1 - shares[best]) / far_speed
    return found


def _sharing(table: _Table, stages: Sequence[Stage]) -> Iterator[tuple[list[Stage], Floats]]:
    """Yield two stages, the first of them on the device of the last too, with how many rows each device has of all."""
    if len(stages) != 2 or stages[1][3] - stages[1][2] > 1:
        return
    (_, cut, begin, _), (_, end, last, final) = stages
    slowest = table.work[end] / table.speed[begin, final]  # if all take as long
    left = 1 - (table.work[end] - table.work[cut]) / (slowest * table.speeds[last]) if slowest else 0.0
    if left > 1 - WORTHWHILE:
        rows_of = table.speeds.copy()
        rows_of[last] *= left
        yield [(0, cut, begin, final), stages[1]], rows_of


def _laid_out(graph: Graph, table: _Table, stages: Sequence[Stage], rows_of: Floats) -> Layout:
    """Return the layout of stages whose devices have rows in proportion to these numbers."""
    owners = {}
    for first, end, begin, stop in stages:
        rows = _rows(rows_of[begin:stop], table.batch) + begin
        for layer in graph.layers[first:end]:
            owners[layer.name] = _plane(graph, layer, rows)
    return Layout(owners, len(table.speeds), found_by="stages")


def _plane(graph: Graph, layer: Layer, rows: Ints) -> Plane:
    if graph.splits_rows(layer):
        return Plane.by_columns(rows, layer.num_filters)
    return Plane.by_lines(np.full(layer.num_filters, rows[0], np.int64), len(rows))


def _rows(speeds: Floats, batch: int) -> Ints:
    """Return the device of every row, in proportion to their speeds."""
    edges = _sums(speeds)[1:] / speeds.sum() * batch
    found: Ints = np.searchsorted(edges - 1e-9, np.arange(batch), "right")
    return np.minimum(found, len(speeds) - 1)
