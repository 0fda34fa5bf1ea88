"""A plan as a document: the map of its layers, what every part does and holds, and the plan beside other placements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from hyperplace.report.document import Column, Document, Figure, Section, Table, Text, Value
from hyperplace.report.layermap import layer_map, part_list
from hyperplace.report.maplines import messages, traffic
from hyperplace.report.planfigure import plan_figure, plan_title
from hyperplace.report.rows import order_of
from hyperplace.report.work import work_scale
from hyperplace.values.comparison import ComparisonRow
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.memory import PartMemory, RunMemory
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Plan
from hyperplace.values.profile import Profile
from hyperplace.values.sizes import byte_scale, size

LEAST_TELLING = ("gradients", "messages", "working", "optimizer", "stashed", "weights", "activations")
TRAINING_NOTE = "sent and received: in a training iteration, with gradients, and weights of split rows"


def plan_document(
    plan: Plan,
    others: Sequence[ComparisonRow] = (),
    made_of: Sequence[Profile | Hypergraph] = (),
    memory: RunMemory | None = None,
) -> Document:
    """Return the plan and what it was made of, its map, its parts with their memory, and the other placements."""
    head = tuple(Text(str(value), "fact") for value in (plan, *made_of))
    figure = Figure(
        name="plan",
        caption="Owner of every filter or row, work per part, and bytes received per part.",
        alt=plan_title(plan),
        draw=lambda: plan_figure(plan),
        characters=lambda width: layer_map(plan, width),
    )
    held = (memory_section(memory),) if memory else ()
    sections = (Section((figure,)), parts_section(plan), *held, versus_section(plan, others))
    return Document(head, sections, parts_table(plan))


def memory_section(memory: RunMemory) -> Section:
    """Return what every part needs of memory at its peak, by what for."""
    scale = byte_scale(part.total for part in memory.parts)
    columns = [
        Column.numbers(
            one.name,
            [scale.of(getattr(part, one.name)) for part in memory.parts],
            scale.name,
            spare=1 + LEAST_TELLING.index(one.name),
        )
        for one in fields(PartMemory)
        if one.name in LEAST_TELLING
    ]
    copied = Column.numbers("copied", [scale.of(part.copied) for part in memory.parts], scale.name, spare=1)
    peak = Column.numbers("peak", [scale.of(part.total) for part in memory.parts], scale.name)
    count = f"{memory.in_flight} mini-batch{'es' * (memory.in_flight != 1)} in flight"
    note = f"memory of every part at its peak, trained with {count} and {memory.optimizer}"
    return Section(
        (Table((Column.numbers("part", range(len(memory.parts))), *columns, peak, copied)), Text(note, "note"))
    )


def parts_section(plan: Plan) -> Section:
    """Return the table of the parts, how they are balanced, and how good the volume is."""
    balance = Text(balance_line(plan), "plain" if plan.metrics.feasible else "alarm")
    lines = [*proof_lines(plan), *([TRAINING_NOTE] if plan.metrics.judges_training else [])]
    return Section((parts_table(plan), balance, *map(Text, lines)))


def parts_table(plan: Plan) -> Table:
    """Return a row per part: its share of the work, its work, what it holds, sends and receives per mini-batch."""
    parts, unit, total = plan.metrics.parts, plan.metrics.work_unit, plan.metrics.total_work
    scale = work_scale((part.work, unit) for part in parts)
    sent, received = traffic(plan)
    out, into = messages(plan)
    held = byte_scale(n for part in parts for n in (part.parameter_bytes, part.activation_bytes))
    moved = byte_scale([*sent, *received])
    return Table(
        (
            Column.numbers("part", range(len(parts))),
            Column.numbers("work", [100 * part.work / total if total else 0.0 for part in parts], "%"),
            Column.numbers("work", [scale.of(part.work, unit) for part in parts], scale.name),
            Column.numbers("parameters", [held.of(part.parameter_bytes) for part in parts], held.name),
            Column.numbers("activations", [held.of(part.activation_bytes) for part in parts], held.name, spare=2),
            Column.numbers("sent", map(moved.of, sent), moved.name),
            Column.numbers("received", map(moved.of, received), moved.name),
            Column.numbers("messages out", out, spare=1),
            Column.numbers("messages in", into, spare=1),
        )
    )


def balance_line(plan: Plan) -> str:
    """Say in a sentence how the heaviest part stands to its limit."""
    settings, metrics = plan.settings, plan.metrics
    limit = balance_limit(metrics.total_work, settings.k, settings.imbalance)
    over = [number for number, work in enumerate(metrics.work_per_part) if work > limit]
    balance = f"max/avg {metrics.max_over_avg:.3f}"
    if metrics.feasible:
        return f"{balance}, within the limit of {1 + settings.imbalance:g}"
    which = f"part {over[0]} is" if len(over) == 1 else f"parts {part_list(over)} are"
    return f"{balance}, over the limit of {1 + settings.imbalance:g}: {which} too heavy"


def proof_lines(plan: Plan) -> list[str]:
    """Say how good the volume is known to be, who found it, and what another run could still change."""
    metrics = plan.metrics
    lines = [f"{plan.verdict}, found by {metrics.found_by}" if metrics.found_by else plan.verdict]
    if metrics.bound_bytes:
        which = "such placement" if metrics.is_bound_one_way else f"{plan.settings.grain} placement"
        lines[0] += f"; no balanced {which} moves less than {size(metrics.bound_bytes)}"
    if plan.settings.pins:
        lines.append(f"pinned: {plan.settings.pins}")
    if metrics.is_cut_short:
        lines.append("the search was cut short: another run may end elsewhere; --time-limit 0 runs it to the end")
    if plan.settings.batch_norm == "per-shard" and plan.replicas:
        lines.append("batch norms over split rows have the statistics of their own rows, unlike the unsplit model's")
    if metrics.found_by == "mtkahypar":
        lines.append("mtkahypar does not repeat its results: another run may end elsewhere")
    return lines


def versus_section(plan: Plan, others: Sequence[ComparisonRow]) -> Section:
    """Return the table of the placements, and a line for every one that beats the plan."""
    return Section((versus_table(plan, others), *(Text(line, "alarm") for line in better_lines(plan, others))))


@dataclass(frozen=True)
class _Placement:
    """A line beside the plan; None is what is not known."""

    name: str
    forward_bytes: int | None
    training_bytes: int | None
    max_over_avg: float | None
    limit: str

    @classmethod
    def of(cls, row: ComparisonRow, imbalance: float) -> "_Placement":
        if not row.has_figures:
            return cls(row.method, None, None, None, "no result")
        limit = "met" if row.meets(imbalance) else "over"
        return cls(row.method, row.volume_bytes, row.training_volume_bytes, row.max_over_avg, limit)


def versus_table(plan: Plan, others: Sequence[ComparisonRow]) -> Table:
    """Return this plan, the others and data parallelism; the ratio is of training volumes per iteration."""
    lines = _placements(plan, others)
    ours = plan.metrics.training_volume_bytes
    scale = byte_scale(line.training_bytes or 0 for line in lines if line.forward_bytes is not None)

    def each(value: Callable[[_Placement], int | None], unit_bytes: int) -> list[Value]:
        return [None if (n := value(line)) is None or not unit_bytes else n / unit_bytes for line in lines]

    return Table(
        (
            Column.words("placement", [line.name for line in lines]),
            Column.numbers("forward", each(lambda line: line.forward_bytes, scale.size), scale.name),
            Column.numbers("training", each(lambda line: line.training_bytes, scale.size), scale.name),
            Column.numbers("x this plan", each(lambda line: line.training_bytes, ours), form=",.2f"),
            Column.numbers("max/avg", [line.max_over_avg for line in lines], form=",.3f"),
            Column.flags("limit", [line.limit for line in lines]),
        )
    )


def _placements(plan: Plan, others: Sequence[ComparisonRow]) -> list[_Placement]:
    settings = plan.settings
    name = f"this plan ({settings.grain}, {settings.partitioner})"
    rows = [ComparisonRow.of(name, plan, settings.imbalance, 0.0), *sorted(others, key=order_of)]
    lines = [_Placement.of(row, settings.imbalance) for row in rows]
    if not _has_data_parallelism(others):  # its volume is known without a row
        lines.append(_Placement("data parallelism", None, plan.metrics.data_parallel_bytes, None, ""))
    return lines


def better_lines(plan: Plan, others: Sequence[ComparisonRow]) -> list[str]:
    """Say which of the others meet the plan's limit and move fewer bytes, the best first.

    Data parallelism, where it has no row of its own figures, counts with the copies of its weights.
    """
    metrics, imbalance = plan.metrics, plan.settings.imbalance
    moved = {other: other.training_volume_bytes if metrics.judges_training else other.volume_bytes for other in others}
    when = "in training" if metrics.judges_training else "forward"
    better = [other for other in others if moved[other] < metrics.judged_bytes and other.meets(imbalance)]
    lines = [
        f"{other.method} ({other.partitioner}) meets the limit and moves less: "
        f"{_instead(moved[other], metrics.judged_bytes, when)}"
        for other in sorted(better, key=lambda other: (moved[other], order_of(other)))
    ]
    if metrics.data_parallel_bytes < metrics.training_volume_bytes and not _has_data_parallelism(others):
        moved_less = _instead(metrics.data_parallel_bytes, metrics.training_volume_bytes, "per iteration")
        lines.append(f"data parallelism moves less: {moved_less}")
    return lines


def _has_data_parallelism(others: Sequence[ComparisonRow]) -> bool:
    return any(other.method == "data parallelism" for other in others)


def _instead(num_bytes: int, ours: int, when: str) -> str:
    scale = byte_scale([num_bytes, ours])
    return f"{scale.figure(num_bytes)} {scale.name} {when} instead of {scale.figure(ours)}"
