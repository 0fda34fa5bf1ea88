"""Hold the simulator against figures that others published, and say what our own plan would take there.

    python results/published/compare.py > results/published/table.md

Arguments choose rows by their number, from 0; sixteen devices take minutes a row.

The layers' times are those of one V100 (v100-layers.csv), the figures those of speed-ups.csv. Batch norms are of each
device. Every figure stands beside that at half the bandwidth:

- by rings: what the published systems do, calculated. Data parallelism computes, then a ring of all devices adds up
  the gradients. Of a pipeline such as 15-1 the slowest is what counts: the devices with copies, their ring, the last
  device, or what goes in and out of its card.
- by our runtime: the same plan simulated as we run it, where each device with copies owns a share of the weights and
  exchanges it with all others; between hosts, gradients are added up and weights handed on by one device of each.
- our plan: the fastest that place_by_time finds in half a minute, by our runtime.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from hyperplace import api
from hyperplace.models import load_model
from hyperplace.planning import Clock, placed
from hyperplace.values.cluster import INSIDE, Cluster, Device, Host
from hyperplace.values.forecast import Forecast
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.hosts import hosts_of
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.plan import Settings
from hyperplace.values.profile import LayerCost, Profile, Work

HERE = Path(__file__).parent
ANCHORS = ("Conv2d", "Linear")
TIME_LIMIT_S = 30.0


def rows_of(name: str) -> list[dict[str, str]]:
    with (HERE / name).open() as file:
        return list(csv.DictReader(file))


def published_profile(model: str, graph: Graph, batch: int) -> Profile:
    """Return the V100's times as a profile of our graph: what follows a convolution or a linear layer is its tail."""
    times: list[list[float]] = []  # forward, backward, and both of the tail
    measured = 1
    for row in rows_of("v100-layers.csv"):
        if row["model"] != model:
            continue
        measured = int(row["batch"])
        forward, backward = float(row["forward_ms"]), float(row["backward_ms"])
        if row["kind"] in ANCHORS:
            times.append([forward, backward, 0.0, 0.0])
        elif times:
            times[-1][2] += forward
            times[-1][3] += backward
    layers = [layer for layer in graph.layers if layer.kind in ("conv2d", "linear") or layer.parameter_bytes]
    if len(layers) != len(times):
        sys.exit(f"{model}: {len(layers)} layers here, {len(times)} in the published profile")
    scale = 1e3 * batch / measured  # microseconds
    costs = {}
    for layer, (forward, backward, tail_forward, tail_backward) in zip(layers, times, strict=True):
        each = scale / layer.num_filters
        tail = Work(tail_forward * each, tail_backward * each)
        costs[layer.name] = LayerCost(layer.name, Work(forward * each, backward * each) + tail, tail=tail)
    found = tuple(costs.get(layer.name, LayerCost(layer.name, Work())) for layer in graph.layers)
    return Profile("measured", "us", batch, found, machine="V100")


def work_s(costs: Profile, layers: Sequence[Layer]) -> float:
    return 1e-6 * sum(costs[layer.name].filter_work * layer.num_filters for layer in layers)


def ring_s(layers: Sequence[Layer], num_devices: int, cluster: Cluster) -> float:
    """Return how long the gradients of some layers go round a ring of neighbours: every card is on it once."""
    num_bytes = 2 * (num_devices - 1) / num_devices * sum(layer.parameter_bytes for layer in layers)
    return num_bytes / cluster.hosts[0].out_rate


def data_parallel_s(graph: Graph, costs: Profile, cluster: Cluster) -> float:
    num_devices = cluster.num_devices
    return work_s(costs, graph.layers) / num_devices + ring_s(graph.layers, num_devices, cluster)


def pipedream_s(graph: Graph, costs: Profile, cluster: Cluster, batch: int) -> float:
    """Return the period of convolutions on all devices but one, which has the rest."""
    first = first_linear(graph)
    copied, rest = graph.layers[:first], graph.layers[first:]
    others = 1 - (len(cluster.hosts[-1].devices) - 1) / (cluster.num_devices - 1)  # of the rows come from other hosts
    crossing = others * batch * copied[-1].map_bytes * copied[-1].num_filters / cluster.hosts[-1].in_rate
    ring = ring_s(copied, cluster.num_devices - 1, cluster)
    return max(work_s(costs, copied) / (cluster.num_devices - 1), ring, work_s(costs, rest), crossing)


def first_linear(graph: Graph) -> int:
    return next(n for n, layer in enumerate(graph.layers) if layer.kind == "linear")


def pipedream_layout(graph: Graph, batch: int, num_parts: int) -> Layout:
    """Return convolutions by rows on all devices but one, linear layers on that one."""
    by_rows = np.minimum(np.arange(batch) * (num_parts - 1) // batch, num_parts - 2)
    first = first_linear(graph)
    owners = {
        layer.name: Plane.by_lines(np.full(layer.num_filters, num_parts - 1), batch)
        if n >= first
        else Plane.by_columns(by_rows, layer.num_filters)
        for n, layer in enumerate(graph.layers)
    }
    return Layout(owners, num_parts, found_by="PipeDream")


def cluster_of(row: dict[str, str], share: float) -> Cluster:
    rate = share * float(row["gbit_per_s"]) * 1e9 / 8
    devices = (Device("V100"),) * int(row["devices_per_host"])
    inside = INSIDE[row["inside"]]
    return Cluster(tuple(Host(f"host {n}", devices, rate, rate, inside_rate=inside) for n in range(int(row["hosts"]))))


@dataclass(frozen=True)
class Figures:
    """Seconds of one device, and of the published plan by rings and by our runtime; and our plan."""

    base: float
    by_rings: float
    by_us: float
    ours: Forecast


def simulated(row: dict[str, str], share: float) -> Figures:
    """Return what all take on the cluster of a row, with a share of its bandwidth."""
    cluster = cluster_of(row, share)
    k, batch = cluster.num_devices, cluster.num_devices * int(row["batch_per_device"])
    graph = captured(row["model"])
    costs = published_profile(row["model"], graph, batch)
    settings = Settings(
        model=row["model"],
        k=k,
        imbalance=float(k),
        grain="hybrid",
        partitioner="auto",
        costs="measured",
        batch=batch,
        row_blocks=k,
        batch_norm="per-shard",
        hosts=hosts_of(cluster, k),
    )
    data_parallel = data_parallel_s(graph, costs, cluster)
    if "-" in row["plan"]:
        layout, by_rings = pipedream_layout(graph, batch, k), pipedream_s(graph, costs, cluster, batch)
    else:
        by_rows = Plane.by_columns
        parts = np.arange(batch) * k // batch
        owners = {layer.name: by_rows(parts, layer.num_filters) for layer in graph.layers}
        layout, by_rings = Layout(owners, k, found_by="data parallelism"), data_parallel
    plan = placed(graph, costs, layout, settings, Clock()).plan
    return Figures(
        data_parallel if row["figure"] == "over data parallelism" else work_s(costs, graph.layers),
        by_rings,
        api.forecast(graph, costs, plan, cluster, name=row["plan"]).seconds,
        our_plan(row["model"], settings, cluster),
    )


@cache
def captured(model: str) -> Graph:
    loaded = load_model(model)
    sample = tuple(torch.empty(2, *x.shape[1:], device="meta") for x in loaded.sample)
    return api.capture(loaded.module, sample).without_statistics()


@cache
def our_plan(model: str, settings: Settings, cluster: Cluster) -> Forecast:
    """Return our fastest plan; rows about the same cluster share it."""
    graph = captured(model)
    costs = published_profile(model, graph, settings.batch)
    return api.place_by_time(graph, costs, settings, cluster, watch=api.Watch(TIME_LIMIT_S)).best


HEADS = ("source", "model", "hosts x devices, Gbit/s", "figure", "published", "by rings", "by our runtime", "our plan")


def main() -> None:
    rows = rows_of("speed-ups.csv")
    print(f"| {' | '.join(HEADS)} |")
    print("| " + "--- | " * len(HEADS))
    for row in [rows[int(number)] for number in sys.argv[1:]] or rows:
        both = [simulated(row, share) for share in (1.0, 0.5)]
        cells = [row["source"], row["model"], f"{row['hosts']} x {row['devices_per_host']}, {row['gbit_per_s']}"]
        cells += [f"{row['figure']} ({row['plan'] or 'all'})", row["value"]]
        cells.append(", ".join(f"{one.base / one.by_rings:.2f}" for one in both))
        cells.append(", ".join(f"{one.base / one.by_us:.2f}" for one in both))
        cells.append(", ".join(f"{one.base / one.ours.seconds:.2f} ({one.ours.name})" for one in both))
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
