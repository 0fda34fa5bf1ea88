"""What every part of a plan does and holds, as a table."""

from typing import TYPE_CHECKING

from hyperplace.report.bars import part_list
from hyperplace.report.terminal import TerminalTable
from hyperplace.report.work import work_scale
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Plan
from hyperplace.values.sizes import byte_scale, size

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

COLUMNS = {"parameters": "parameter", "activations": "activation", "memory": "memory"}

TRAINING_NOTE = "sent and received: in a training iteration, with gradients, and weights of split rows"


def parts_table(plan: Plan) -> "pd.DataFrame":
    """Return a row per part: its share of the work, its work, what it holds, sends and receives per mini-batch."""
    import pandas as pd

    parts, unit = plan.metrics.parts, plan.metrics.work_unit
    scale = work_scale((part.work, unit) for part in parts)
    total = plan.metrics.total_work
    table = pd.DataFrame({"part": range(len(parts))})
    table["work %"] = [100 * part.work / total if total else 0.0 for part in parts]
    table[f"work {scale.name}"] = [scale.of(part.work, unit) for part in parts]
    sent, received = traffic(plan)
    sizes = {name: [getattr(part, f"{field}_bytes") for part in parts] for name, field in COLUMNS.items()}
    sizes |= {"sent": sent, "received": received}
    for names in (tuple(COLUMNS), ("sent", "received")):
        unit_of = byte_scale(num_bytes for name in names for num_bytes in sizes[name])
        for name in names:
            table[f"{name} {unit_of.name}"] = [unit_of.of(num_bytes) for num_bytes in sizes[name]]
    table["messages out"], table["messages in"] = messages(plan)
    return table


def traffic(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the bytes every part sends and receives, of a training iteration if the plan was judged by that.

    Otherwise those of the forward pass.
    """
    if not plan.metrics.judges_training:
        return [part.sent_bytes for part in plan.metrics.parts], [part.received_bytes for part in plan.metrics.parts]
    sent, received = [0] * plan.settings.k, [0] * plan.settings.k
    for (_, source, target), num_bytes in plan.moved_bytes.items():
        sent[source] += num_bytes
        received[target] += num_bytes
    return sent, received


def messages(plan: Plan) -> tuple[list[int], list[int]]:
    """Return how many messages every part sends and receives, of the same work as `traffic`."""
    parts = plan.metrics.parts
    if not plan.metrics.judges_training:
        return [part.num_sent for part in parts], [part.num_received for part in parts]
    sent, received = [0] * len(parts), [0] * len(parts)
    routes = [(message.source, message.target) for message in plan.messages]
    routes += [(message.target, message.source) for message in plan.messages if message.learns]
    for replica in plan.replicas:  # gradients there and weights back, and statistics both ways in both passes
        both_ways = [(replica.part, replica.owner), (replica.owner, replica.part)]
        routes += both_ways * (bool(replica.parameter_bytes) + 2 * bool(replica.statistics_bytes))
    for source, target in routes:
        sent[source] += 1
        received[target] += 1
    return sent, received


def render_parts(plan: Plan) -> "RenderableType":
    """Return the table for the terminal, and a line on the balance below it."""
    from rich.console import Group
    from rich.text import Text

    style = "" if plan.metrics.feasible else "bold red"
    return Group(
        TerminalTable(parts_table(plan), spare=("messages", "activations")),
        Text(balance_line(plan), style=style),
        *(Text(line) for line in proof_lines(plan)),
        *([Text(TRAINING_NOTE)] if plan.metrics.judges_training else []),
    )


def proof_lines(plan: Plan) -> list[str]:
    """Say how good the volume is known to be, who found it, and what another run could still change."""
    metrics = plan.metrics
    lines = [f"{metrics.verdict}, found by {metrics.found_by}" if metrics.found_by else metrics.verdict]
    if metrics.bound_bytes:
        which = "such placement" if metrics.is_bound_one_way else f"{plan.settings.grain} placement"
        lines[0] += f"; no balanced {which} moves less than {size(metrics.bound_bytes)}"
    if metrics.is_cut_short:
        lines.append("the search was cut short: another run may end elsewhere; --time-limit 0 runs it to the end")
    if plan.settings.batch_norm == "per-shard" and plan.replicas:
        lines.append("batch norms over split rows have the statistics of their own rows, unlike the unsplit model's")
    if metrics.found_by == "mtkahypar":
        lines.append("mtkahypar does not repeat its results: another run may end elsewhere")
    return lines


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
