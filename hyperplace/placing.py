"""A model and a sample to its plan in one call, by bytes within an imbalance or by time on a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from hyperplace.by_time.search import run_by_time
from hyperplace.by_time.timing import FlowWish
from hyperplace.planning import run
from hyperplace.search import OnProgress, Watch
from hyperplace.values import drawn
from hyperplace.values.cluster import Cluster
from hyperplace.values.pins import Pins
from hyperplace.values.plan import Plan, Settings

if TYPE_CHECKING:
    from torch import nn


def place(
    model: "nn.Module",
    sample: Any,
    *,
    k: int | None = None,
    imbalance: float = 0.1,
    grain: str = "auto",
    partitioner: str = "auto",
    costs: str | None = None,
    batch: int | None = None,
    blocks: int | None = 64,
    fc: str = "neurons",
    seed: int = 0,
    row_blocks: int = 8,
    batch_norm: str = "exact",
    time_limit_s: float = 20.0,
    cluster: Cluster | None = None,
    schedule: str = "async",
    pin: Mapping[str, int] | None = None,
    keep_together: Iterable[Sequence[str]] | None = None,
    at_most: Mapping[str, int] | None = None,
    on_progress: OnProgress | None = None,
) -> Plan:
    """Return the plan that places a model on k parts, with its metrics; for mini-batches like the sample, or `batch`.

    All searches together end at `time_limit_s`; 0 means none. `on_progress` gets a line whenever one finds something;
    in a notebook it is shown below the cell unless told otherwise.

    Grain "auto" tries coarse, fine and hybrid, and takes the one that moves least in training. Batch norm "per-shard"
    saves what batch norms over split rows exchange, at the price of statistics that are not the unsplit model's.

    With a `cluster` it is the plan that takes least time there, run by the `schedule`, on as many parts as there are
    devices by default; then costs are measured, and imbalance, grain and partitioner do not matter.

    `pin` names the one part of a layer, `keep_together` layers that are on one part, `at_most` on how many parts a
    layer may be; what is asked of a layer is asked of those tied to it by an add or a depthwise convolution.

    >>> plan = hyperplace.place(model, sample, k=4, imbalance=0.1)
    """
    rows = _rows_of(sample) if batch is None else batch
    settings = Settings(
        model=type(model).__name__,
        k=k if k is not None else cluster.num_devices if cluster else 4,
        imbalance=imbalance,
        grain=grain,
        partitioner=partitioner,
        costs=costs or ("measured" if cluster else "flops"),
        batch=rows,
        blocks=blocks,
        fc=fc,
        seed=seed,
        row_blocks=row_blocks,
        batch_norm=batch_norm,
        pins=Pins.of(pin, keep_together, at_most),
    )
    with nullcontext() if on_progress else drawn.line(f"placing {settings.model}") as line:
        watch = Watch(time_limit_s, on_progress=on_progress or (line.say if line else lambda text: None))
        if cluster is not None:
            return run_by_time(model, sample, settings, cluster, FlowWish(schedule), watch=watch).best.plan
        return run(model, sample, settings, watch=watch).plan


def _rows_of(sample: Any) -> int:
    """Return the rows of the first tensor; whatever is no sample is for capture to refuse."""
    first = sample
    while isinstance(first, dict | list | tuple) and first:
        first = next(iter(first.values() if isinstance(first, dict) else first))
    shape = list(getattr(first, "shape", ()))
    return int(shape[0]) if shape and shape[0] else 1
