"""What every part of a plan does and holds, as a table."""

from typing import TYPE_CHECKING

from hyperplace.report.bars import part_list
from hyperplace.report.tables import MIB
from hyperplace.report.terminal import TerminalTable
from hyperplace.report.work import work_scale
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Plan

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
    for name, field in COLUMNS.items():
        table[f"{name} MiB"] = [getattr(part, f"{field}_bytes") / MIB for part in parts]
    sent, received = traffic(plan)
    table["sent MiB"] = [num_bytes / MIB for num_bytes in sent]
    table["received MiB"] = [num_bytes / MIB for num_bytes in received]
    table["messages out"] = [part.num_sent for part in parts]
    table["messages in"] = [part.num_received for part in parts]
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
        lines[0] += f"; no balanced {which} moves less than {metrics.bound_bytes / MIB:.1f} MiB"
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
