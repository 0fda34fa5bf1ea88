"""Small plans counted by hand: every figure in them is written here, none is computed by the library."""

from hyperplace.values.facts import Facts, FilterRun, Reading
from hyperplace.values.plan import (
    Metrics,
    Owner,
    PartMetrics,
    Plan,
    PlannedLayer,
    PlannedWork,
    Reduction,
    Replica,
    Settings,
    Shard,
    Transfer,
)

ROWS = (0, 8)


def settings(grain):
    return Settings(model="net", k=2, imbalance=0.1, grain=grain, partitioner="kahypar", costs="flops", batch=8)


def layer(name, owners, shards, facts, **others):
    """Return a layer of 4 filters (the input: 3) that reads 3 channels."""
    words = ("input", "input", 3, 0) if name == "x" else ("conv2d", "mixing", 4, 3)
    return PlannedLayer(name, *words, owners, shards, facts=facts, **others)


X = layer("x", (Owner(0, ((0, 3),), ROWS),), (), Facts(map_bytes=16, saved_bytes=0, splits_rows=True))
CONV_FACTS = Facts(
    readings=(Reading((FilterRun("x", 0, 3, 1),), "all"),),
    map_bytes=4,
    partial_bytes=16,
    saved_bytes=20,
    parameter_bytes=4 * (3 * 9 + 1) * 4,
    kernel_bytes=4 * 3 * 9 * 4,
    has_state=True,
    learns=True,
    sums_channels=True,
    splits_rows=True,
)


def coarse():
    """One filter of four on part 0 with the input, three on part 1: all of the input goes there."""
    conv = layer(
        "conv",
        (Owner(0, ((0, 1),), ROWS), Owner(1, ((1, 4),), ROWS)),
        (Shard(0, ((0, 1),), ((0, 3),), ROWS), Shard(1, ((1, 4),), ((0, 3),), ROWS)),
        CONV_FACTS,
        work=PlannedWork(100, 300),
    )
    parts = (
        PartMetrics(100, 112, 160, 2 * 112 + 160, 384, 0, 1, 0),
        PartMetrics(300, 336, 480 + 384, 2 * 336 + 864, 0, 384, 0, 1),
    )
    return Plan(
        settings("coarse"),
        (X, conv),
        (Transfer("x", 0, 1, ((0, 3),), ROWS, 3 * 8 * 16, learns=False),),
        (),
        Metrics("1 flops", parts, 384, 384, 2 * 448, feasible=False, found_by="hand"),
        inputs=((3, 2, 2),),
        parameter_bytes=448,
    )


def fine():
    """Part 0 owns all filters, part 1 computes what they want of channel 2 and sends partial sums of all four."""
    conv = layer(
        "conv",
        (Owner(0, ((0, 4),), ROWS),),
        (Shard(0, ((0, 4),), ((0, 2),), ROWS), Shard(1, ((0, 4),), ((2, 3),), ROWS)),
        CONV_FACTS,
        work=PlannedWork(10, 20),
        kernel_work=PlannedWork(100, 150, 50),
    )
    parts = (
        PartMetrics(30 + 200, 16 + 288, 640 + 512, 2 * 304 + 1152, 128, 512, 1, 1),
        PartMetrics(100, 144, 128, 2 * 144 + 128, 512, 128, 1, 1),
    )
    return Plan(
        settings("fine"),
        (X, conv),
        (Transfer("x", 0, 1, ((2, 3),), ROWS, 128, learns=False),),
        (Reduction("conv", 1, 0, ((0, 4),), ROWS, 4 * 8 * 16),),
        Metrics("1 flops", parts, 640, 640 + 512, 2 * 448, feasible=False, found_by="hand"),
        inputs=((3, 2, 2),),
        parameter_bytes=448,
    )


def hybrid():
    """Part 0 has the input and three rows of all filters, part 1 five; each owns the weights of two filters."""
    conv = layer(
        "conv",
        (Owner(0, ((0, 4),), (0, 3)), Owner(1, ((0, 4),), (3, 8))),
        (Shard(0, ((0, 4),), ((0, 3),), (0, 3)), Shard(1, ((0, 4),), ((0, 3),), (3, 8))),
        CONV_FACTS,
        work=PlannedWork(200, 500, 100),
    )
    parts = (
        PartMetrics(300, 448, 240, 896 + 240, 240, 0, 1, 0),
        PartMetrics(500, 448, 400 + 240, 896 + 640, 0, 240, 0, 1),
    )
    return Plan(
        settings("hybrid"),
        (X, conv),
        (Transfer("x", 0, 1, ((0, 3),), (3, 8), 3 * 5 * 16, learns=False),),
        (),
        Metrics("1 flops", parts, 240, 240 + 2 * 448, 2 * 448, feasible=False, found_by="hand", judges_training=True),
        inputs=((3, 2, 2),),
        replicas=(Replica("conv", 0, 1, ((2, 4),), 224, 0), Replica("conv", 1, 0, ((0, 2),), 224, 0)),
        parameter_bytes=448,
    )


PLANS = {"coarse": coarse, "fine": fine, "hybrid": hybrid}
