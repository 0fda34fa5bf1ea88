"""Hand-made plans and comparisons, and the comparison with golden files."""

import io
import os
from pathlib import Path

from hyperplace.report import Document, Table, plain_text
from hyperplace.values.comparison import Comparison, ComparisonRow
from hyperplace.values.plan import (
    Metrics,
    Owner,
    PartMetrics,
    Plan,
    PlannedLayer,
    Reduction,
    Replica,
    Settings,
    Shard,
    Transfer,
)

MIB = 2**20
ROWS = (0, 8)
GOLDEN = Path(__file__).parent / "golden"
VGG16_PARAMETER_BYTES = 4 * 138_357_544


def check_golden(name, text):
    """Compare with golden/name; HYPERPLACE_UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("HYPERPLACE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def printed_section(section, width=80):
    """Return what a terminal without colour shows of one section."""
    return plain_text(Document((), (section,), Table(())), width)


def printed(renderable, width=80):
    """Return what a terminal without colour shows."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(renderable)
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def png(figure):
    """Return the figure as a file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


def settings(k, grain="coarse", **others):
    return Settings(
        model="tiny",
        k=k,
        imbalance=others.pop("imbalance", 0.1),
        grain=grain,
        partitioner="kahypar",
        costs="flops",
        batch=8,
        **others,
    )


def layer(name, owners, *, rule="mixing", shards=None, channels=4, reason=""):
    """Return a layer whose filters go to the parts in order: owners are (part, number of filters)."""
    ranges_of, first = {}, 0
    for part, size in owners:
        ranges_of.setdefault(part, []).append((first, first + size))
        first += size
    owned = tuple(Owner(part, tuple(ranges), ROWS) for part, ranges in sorted(ranges_of.items()))
    if shards is None:
        shards = tuple(Shard(owner.part, owner.filters, ((0, channels),), (0, 8)) for owner in owned)
    return PlannedLayer(name, "conv", rule, first, channels, owned, shards, reason)


def plan(layers, k, *, transfers=(), reductions=(), work=None, grain="coarse", imbalance=0.1):
    work = work or [100] * k
    messages = (*transfers, *reductions)
    parts = tuple(part_metrics(number, amount, messages) for number, amount in enumerate(work))
    volume = sum(message.num_bytes for message in messages)
    feasible = max(work) <= (1 + imbalance) * sum(work) / k
    metrics = Metrics("1000000 flops", parts, volume, 2 * volume, 30 * MIB * (k - 1), feasible)
    return Plan(settings(k, grain, imbalance=imbalance), tuple(layers), tuple(transfers), tuple(reductions), metrics)


def part_metrics(number, work, messages):
    sent = [message.num_bytes for message in messages if message.source == number]
    received = [message.num_bytes for message in messages if message.target == number]
    held, kept = (number + 1) * MIB, 2 * MIB + sum(received)
    return PartMetrics(work, held, kept, 2 * held + kept, sum(sent), sum(received), len(sent), len(received))


def coarse_plan():
    layers = (
        layer("input", [(0, 3)], rule="input", shards=(), channels=0),
        layer("features.0", [(0, 48), (1, 16)]),
        layer("features.3", [(1, 127), (2, 1)]),
        layer("odd[0]", [(2, 10)], rule="whole", reason="no rule for aten.cumsum"),
        layer("odd[1]", [(2, 10)], rule="whole", reason="no rule for aten.cumsum"),
    )
    transfers = (
        Transfer("input", 0, 1, ((0, 3),), ROWS, 3 * MIB // 2),
        Transfer("features.0", 0, 1, ((0, 48),), ROWS, 48 * MIB),
        Transfer("features.0", 0, 2, ((0, 48),), ROWS, 48 * MIB),
        Transfer("features.3", 1, 2, ((0, 127),), ROWS, 1000),
    )
    return plan(layers, 3, transfers=transfers, work=[90, 105, 105])


def fine_plan():
    kernels = (
        Shard(0, ((0, 8),), ((0, 2),), (0, 8)),
        Shard(1, ((0, 8),), ((2, 4),), (0, 8)),
    )
    layers = (layer("a", [(0, 8)], shards=kernels), layer("b", [(1, 8)]))
    reductions = (Reduction("a", 1, 0, ((0, 8),), ROWS, 5 * MIB),)
    transfers = (Transfer("a", 0, 1, ((0, 8),), ROWS, 2 * MIB),)
    return plan(layers, 2, transfers=transfers, reductions=reductions, work=[130, 70], grain="fine")


def long_plan():
    """Fifty layers in three runs, of which the first sends from its end and from one layer inside."""
    parts = [0] * 20 + [1] * 29
    layers = [layer(f"stage.{i}.conv", [(part, 16)]) for i, part in enumerate(parts)]
    layers.append(layer("a.very.long.name.of.a.layer.that.does.not.fit.into.any.terminal", [(1, 8), (2, 8)]))
    transfers = (
        Transfer("stage.4.conv", 0, 1, ((0, 16),), ROWS, MIB),
        Transfer("stage.19.conv", 0, 1, ((0, 16),), ROWS, 4 * MIB),
    )
    return plan(layers, 3, transfers=transfers)


def wide_plan(k=128):
    """Everybody has something of one layer; some columns of the map stand for several parts."""
    layers = (layer("all", [(part, 2) for part in range(k)]), layer("last", [(k - 1, 5)]))
    transfers = tuple(Transfer("all", part, k - 1, ((2 * part, 2 * part + 2),), ROWS, MIB) for part in range(k - 1))
    return plan(layers, k, transfers=transfers)


def row(method, k, volume_mib, max_over_avg=1.0, *, imbalance=None, model="vgg16", **others):
    """Return a row with an average work of 1000 units."""
    volume = round(volume_mib * MIB)
    return ComparisonRow(
        model=model,
        method=method,
        grain="fine" if method in ("fine", "channel-wise incremental") else "coarse",
        partitioner=others.pop("partitioner", "kahypar"),
        imbalance=imbalance,
        k=k,
        max_work=round(1000 * max_over_avg),
        min_work=900,
        avg_work=1000.0,
        volume_bytes=volume,
        max_part_bytes=volume // 2,
        training_volume_bytes=2 * volume,
        data_parallel_bytes=2 * (k - 1) * VGG16_PARAMETER_BYTES,
        feasible=None if imbalance is None else max_over_avg <= 1 + imbalance,
        work_unit="1000000 flops",
        **others,
    )


def comparison(model="vgg16", batch=32):
    failed = ComparisonRow.failed(
        "fine",
        Settings(model=model, k=4, imbalance=0.03, grain="fine", partitioner="kahypar", costs="flops", batch=batch),
        0.03,
        VGG16_PARAMETER_BYTES,
        "out of time | after 9 s",
    )
    rows = (
        row("coarse", 4, 252.3, 1.09, imbalance=0.1, model=model, seconds=0.25),
        row("coarse", 4, 300.0, 1.05, imbalance=0.03, model=model),
        failed,
        row("fine", 4, 260.0, 1.1, imbalance=0.1, model=model),
        row("filter-wise incremental", 4, 409.0, 1.002, model=model, partitioner="incremental"),
        row("layer-wise", 4, 200.0, 1.2, model=model, partitioner="layerwise"),
        row("layer-wise", 2, 98.0, 1.06, model=model, partitioner="layerwise"),
        row("coarse", 2, 98.0, 1.06, imbalance=0.1, model=model),
    )
    return Comparison(model, batch, "flops", 64, "whole", VGG16_PARAMETER_BYTES, rows)


def plan_others():
    """Return placements beside a plan on three parts: one better, one over the limit, one that failed."""
    failed = ComparisonRow.failed("layer-wise", settings(3), None, 5, "too few layers")
    return [
        row("filter-wise incremental", 3, 97.0, 1.02, partitioner="incremental"),
        row("filter-wise horizontal", 3, 90.0, 1.3, partitioner="horizontal"),
        failed,
    ]


def hybrid_plan():
    """Return three layers on two parts: one split by rows, one by filters, one not at all, and one by both."""
    halves = (Owner(0, ((0, 8),), (0, 3)), Owner(1, ((0, 8),), (3, 8)))
    by_rows = PlannedLayer(
        "rows", "conv", "mixing", 8, 4, halves, tuple(Shard(o.part, o.filters, ((0, 4),), o.rows) for o in halves)
    )
    pieces = (Owner(0, ((0, 8),), (0, 4)), Owner(0, ((0, 2),), (4, 8)), Owner(1, ((2, 8),), (4, 8)))
    by_both = PlannedLayer(
        "both", "conv", "mixing", 8, 4, pieces, tuple(Shard(o.part, o.filters, ((0, 4),), o.rows) for o in pieces)
    )
    part = PartMetrics(1, 0, 0, 0, 0, 0, 0, 0)
    return Plan(
        settings(2, "hybrid"),
        (by_rows, layer("filters", [(0, 5), (1, 3)]), layer("whole", [(1, 8)]), by_both),
        (Transfer("rows", 0, 1, ((0, 8),), (0, 3), MIB), Transfer("filters", 0, 1, ((0, 5),), ROWS, MIB)),
        (),
        Metrics("1 flops", (part, part), 2 * MIB, 8 * MIB, 0, True, judges_training=True),
        replicas=(Replica("rows", 0, 1, ((0, 8),), MIB, 0), Replica("both", 1, 0, ((2, 8),), MIB // 2, MIB // 4)),
    )
