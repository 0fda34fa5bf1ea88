"""Hold the simulator against figures that others published, and say what our own plan would take there.

    python results/published/compare.py 2018 > results/published/table.md

An argument chooses the sources with that word; sixteen devices take minutes a row.

The layers' times are those of one V100 (v100-layers.csv), the figures those of speed-ups.csv. Data parallelism is a
ring that reduces every layer's gradients while the layers before it run backward. A plan 15-1 has the convolutions on
15 devices by rows and the rest on one, as PipeDream found it, run by our own schedule.
"""

import csv
import sys
from pathlib import Path

import numpy as np
import torch

from hyperplace import api
from hyperplace.models import load_model
from hyperplace.planning import Clock, placed
from hyperplace.values.cluster import INSIDE, Cluster, Device, Host
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.plan import Settings
from hyperplace.values.profile import LayerCost, Profile, Work

HERE = Path(__file__).parent
ANCHORS = ("Conv2d", "Linear")
TIME_LIMIT_S = 10.0


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


def ring_seconds(graph: Graph, costs: Profile, cluster: Cluster) -> float:
    """Return an iteration of data parallelism: gradients go round a ring while earlier layers run backward."""
    share, num_hosts = 1e-6 / cluster.num_devices, len(cluster.hosts)
    work = {layer.name: costs[layer.name].filter * layer.num_filters for layer in graph.layers}
    now = sum(one.forward for one in work.values()) * share
    through = now
    for layer in reversed(graph.layers):
        now += work[layer.name].backward * share
        num_bytes = 2 * (num_hosts - 1) / num_hosts * layer.parameter_bytes
        through = max(through, now) + num_bytes / cluster.hosts[0].out_rate if layer.parameter_bytes else through
    return max(now, through)


def pipedream_layout(graph: Graph, batch: int, num_parts: int) -> Layout:
    """Return convolutions by rows on all devices but one, linear layers on that one."""
    by_rows = np.minimum(np.arange(batch) * (num_parts - 1) // batch, num_parts - 2)
    linear = [layer.name for layer in graph.layers if layer.kind == "linear"]
    first = next(n for n, layer in enumerate(graph.layers) if layer.name == linear[0])
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


def simulated(row: dict[str, str], share: float) -> tuple[float, float, float, float]:
    """Return the seconds of one device, of data parallelism, of the published plan and of ours."""
    cluster = cluster_of(row, share)
    k, batch = cluster.num_devices, cluster.num_devices * int(row["batch_per_device"])
    loaded = load_model(row["model"])
    graph = api.capture(loaded.module, tuple(torch.empty(2, *x.shape[1:], device="meta") for x in loaded.sample))
    costs = published_profile(row["model"], graph, batch)
    alone = sum(costs[layer.name].filter_work * layer.num_filters for layer in graph.layers) * 1e-6
    settings = Settings(
        model=row["model"],
        k=k,
        imbalance=float(k),
        grain="hybrid",
        partitioner="auto",
        costs="measured",
        batch=batch,
        row_blocks=k,
    )
    ring = ring_seconds(graph, costs, cluster)
    theirs = ring
    if "-" in row["plan"] or not row["plan"]:
        plan = placed(graph, costs, pipedream_layout(graph, batch, k), settings, Clock()).plan
        theirs = api.forecast(graph, costs, plan, cluster, name=row["plan"]).seconds
    found = api.place_by_time(graph, costs, settings, cluster, watch=api.Watch(TIME_LIMIT_S))
    return alone, ring, theirs, found.best.seconds


def main() -> None:
    print(
        "| source | model | hosts x devices, Gbit/s | figure | published | simulated | at half bandwidth | our plan |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for row in (row for row in rows_of("speed-ups.csv") if wanted in row["source"]):
        figures = []
        for share in (1.0, 0.5):
            alone, ring, theirs, ours = simulated(row, share)
            base = ring if row["figure"] == "over data parallelism" else alone
            theirs = ring if row["figure"] == "data parallelism over one" else theirs
            figures.append((base / theirs, base / ours))
        place = f"{row['hosts']} x {row['devices_per_host']}, {row['gbit_per_s']}"
        print(
            f"| {row['source']} | {row['model']} | {place} | {row['figure']} ({row['plan']}) | {row['value']} "
            f"| {figures[0][0]:.2f} | {figures[1][0]:.2f} | {figures[0][1]:.2f}, {figures[1][1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
