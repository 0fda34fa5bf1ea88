"""Facts that a plan can follow from: channels that exist, sizes that fit, every kernel computed once."""

from collections.abc import Iterator
from dataclasses import asdict, fields

import numpy as np

from hyperplace.values.cells import Cells, Piece
from hyperplace.values.derived.shards import has_kernels
from hyperplace.values.facts import Facts, Reading
from hyperplace.values.graph import Reads, Rule
from hyperplace.values.plan import Plan, PlannedLayer
from hyperplace.values.ranges import Ranges

MOST = 2**53  # of bytes and of work: whole numbers that a float still tells apart
MOST_ELEMENT_BYTES = 16
MOST_GROUPS = 2**11  # of a layer that is split into kernels


def fact_faults(plan: Plan) -> list[str]:
    """Return what the layers' facts contradict."""
    faults: list[str] = []
    sizes: dict[str, int] = {}
    for layer in plan.layers:
        faults += _number_faults(layer)
        for reading in layer.facts.readings:
            faults += _reading_faults(layer, reading, sizes)
        faults += _layer_faults(layer, plan)
        sizes[layer.name] = layer.num_filters
    return faults or list(_plan_faults(plan))


def _number_faults(layer: PlannedLayer) -> Iterator[str]:
    numbers = {field.name: getattr(layer.facts, field.name) for field in fields(Facts) if field.type is int}
    for name, work in (("work", layer.work), ("kernel_work", layer.kernel_work)):
        numbers |= {f"{name}.{way}": number for way, number in asdict(work).items()}
    for name, number in numbers.items():
        if not 0 <= number < MOST:
            yield f"{layer.name}: {name} is {number}, outside 0..{MOST - 1}"
    if layer.facts.kernel_bytes > layer.facts.parameter_bytes:
        yield f"{layer.name}: kernel_bytes {layer.facts.kernel_bytes} are more than parameter_bytes"


def _reading_faults(layer: PlannedLayer, reading: Reading, sizes: dict[str, int]) -> Iterator[str]:
    """Check one tensor that is read; `sizes` are the filters of all layers before this one."""
    for run in reading.runs:
        if run.layer not in sizes:
            yield f"{layer.name} reads {run.layer}, which is no layer before it"
        elif not (0 <= run.start < run.stop <= sizes[run.layer] and 1 <= run.width < MOST):
            yield f"{layer.name} reads filters {run.start}:{run.stop} of {run.layer}, outside 0:{sizes[run.layer]}"
    if reading.reads not in tuple(Reads):
        yield f"{layer.name} reads {reading.reads!r}, not one of {', '.join(Reads)}"
    if reading.reads == Reads.SAME and reading.num_channels != layer.num_filters:
        yield f"{layer.name} has {layer.num_filters} filters that read {reading.num_channels} channels one by one"
    groups = layer.facts.groups
    if reading.reads == Reads.GROUP and (groups < 1 or layer.num_filters % groups or reading.num_channels % groups):
        yield f"{layer.name} has {groups} groups of {layer.num_filters} filters, {reading.num_channels} channels"


def _layer_faults(layer: PlannedLayer, plan: Plan) -> Iterator[str]:
    facts = layer.facts
    if layer.rule not in tuple(Rule):
        yield f"{layer.name} has rule {layer.rule!r}, not one of {', '.join(Rule)}"
    if layer.rule == Rule.INPUT and facts.readings:
        yield f"{layer.name} is an input, but reads {facts.readings[0].num_channels} channels"
    num_channels = facts.readings[0].num_channels if facts.readings else 0
    if layer.num_channels != num_channels:
        yield f"{layer.name}: num_channels is {layer.num_channels}, but it reads {num_channels}"
    if facts.sums_channels and [reading.reads == Reads.SAME for reading in facts.readings] != [False]:
        yield f"{layer.name} sums the channels of one tensor, but reads {len(facts.readings)}, or one by one"
    if layer.kernel_work.total and not has_kernels(layer, plan.settings):
        yield f"{layer.name} has kernel_work {layer.kernel_work.total}, but is not split into kernels"
    if plan.settings.batch_norm == "per-shard" and facts.statistics_bytes:
        yield f"{layer.name} has statistics_bytes {facts.statistics_bytes}, but batch norm is per-shard"


def _plan_faults(plan: Plan) -> Iterator[str]:
    if not 0 <= plan.parameter_bytes <= sum(layer.facts.parameter_bytes for layer in plan.layers):
        yield f"parameter_bytes is {plan.parameter_bytes}, more than its layers have"
    if plan.metrics.bound_bytes is not None and plan.metrics.bound_bytes < 0:
        yield f"bound_bytes is {plan.metrics.bound_bytes}"
    inputs = [layer for layer in plan.layers if layer.rule == Rule.INPUT]
    if len(inputs) != len(plan.inputs):
        yield f"it has {len(plan.inputs)} shapes of inputs, but {len(inputs)} layers that are inputs"
        return
    for layer, shape in zip(inputs, plan.inputs, strict=True):
        if not _is_shape_of(layer, shape):
            yield f"input {layer.name} of {layer.num_filters} channels cannot have shape {'x'.join(map(str, shape))}"


def _is_shape_of(layer: PlannedLayer, shape: tuple[int, ...]) -> bool:
    """Say whether an input's rows may be of this shape, going by their channels and bytes."""
    if any(not 0 <= side < MOST for side in shape) or layer.num_filters != (shape[0] if shape else 1):
        return False
    elements, num_bytes = 1, layer.num_filters * layer.facts.map_bytes
    for side in shape:
        elements *= side
    return num_bytes % elements == 0 and num_bytes // elements <= MOST_ELEMENT_BYTES if elements else num_bytes == 0


def owner_faults(layers: tuple[PlannedLayer, ...], batch: int) -> list[str]:
    """Return which layers are split, with owners in their one form, though they must not be."""
    faults = []
    for layer in layers:
        if layer.rule == Rule.WHOLE and len({owner.part for owner in layer.owners}) > 1:
            faults.append(f"{layer.name} is placed whole, but is on several parts")
        apart = [owner.rows for owner in layer.owners if owner.rows != (0, batch)]
        if apart and not layer.facts.splits_rows:
            faults.append(f"{layer.name} has rows {apart[0][0]}:{apart[0][1]} apart, but they must stay together")
    return faults


def kernel_faults(plan: Plan) -> list[str]:
    """Return which filters of layers that are split into kernels are multiplied with a channel never or twice."""
    return [fault for layer in plan.layers if has_kernels(layer, plan.settings) for fault in _kernel_faults(layer)]


def _kernel_faults(layer: PlannedLayer) -> Iterator[str]:
    (reading,) = layer.facts.readings
    groups = layer.facts.groups if reading.reads == Reads.GROUP else 1
    if groups > MOST_GROUPS:
        yield f"{layer.name} has {groups} groups, more than {MOST_GROUPS}"
        return
    steps = layer.num_filters // groups, reading.num_channels // groups
    read: list[Piece] = [(_nth(group, steps[0]), _nth(group, steps[1])) for group in range(groups)]
    pieces = [(shard.filters, shard.channels) for shard in layer.shards]
    cells = Cells([*pieces, *read])
    found, wanted = cells.counted(pieces), cells.counted(read)
    for i, j in np.argwhere(found != wanted)[:1].tolist():
        where = f"filter {cells.lines[i]} of {layer.name} on channel {cells.columns[j]}"
        yield f"{where} is computed {found[i, j]} times instead of {wanted[i, j]}"


def _nth(number: int, size: int) -> Ranges:
    return ((number * size, (number + 1) * size),)
