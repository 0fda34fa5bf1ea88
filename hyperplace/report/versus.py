"""A plan beside the baselines and data parallelism: the table under every plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyperplace.report.rows import order_of
from hyperplace.report.tables import NOTHING
from hyperplace.report.terminal import TerminalTable
from hyperplace.values.comparison import ComparisonRow
from hyperplace.values.plan import Plan
from hyperplace.values.sizes import ByteScale, byte_scale

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


def versus_table(plan: Plan, others: Sequence[ComparisonRow]) -> "pd.DataFrame":
    """Return this plan, the others and data parallelism; the ratio is of training volumes per iteration."""
    import pandas as pd

    metrics, settings = plan.metrics, plan.settings
    ours = metrics.training_volume_bytes
    scale = byte_scale([ours, *(other.training_volume_bytes for other in others if other.has_figures)])
    rows: list[tuple[str | float, ...]] = [
        (
            f"this plan ({settings.grain}, {settings.partitioner})",
            scale.of(metrics.volume_bytes),
            scale.of(ours),
            _ratio(ours, ours),
            metrics.max_over_avg,
            "met" if metrics.feasible else "over",
        )
    ]
    rows += [_row(other, plan, scale) for other in sorted(others, key=order_of)]
    if not any(other.method == "data parallelism" for other in others):
        copied = metrics.data_parallel_bytes
        rows.append(("data parallelism", NOTHING, scale.of(copied), _ratio(copied, ours), NOTHING, ""))
    sizes = [f"{when} {scale.name}" for when in ("forward", "training")]
    return pd.DataFrame(rows, columns=["placement", *sizes, "x this plan", "max/avg", "limit"])


def render_versus(plan: Plan, others: Sequence[ComparisonRow]) -> "RenderableType":
    """Return the table for the terminal, and a plain line for every baseline that beats the plan."""
    from rich.console import Group
    from rich.text import Text

    lines = [Text(line, style="bold red") for line in better_lines(plan, others)]
    return Group(TerminalTable(versus_table(plan, others)), *lines)


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
    has_row = any(other.method == "data parallelism" for other in others)
    if metrics.data_parallel_bytes < metrics.training_volume_bytes and not has_row:
        moved_less = _instead(metrics.data_parallel_bytes, metrics.training_volume_bytes, "per iteration")
        lines.append(f"data parallelism moves less: {moved_less}")
    return lines


def _instead(num_bytes: int, ours: int, when: str) -> str:
    scale = byte_scale([num_bytes, ours])
    return f"{scale.figure(num_bytes)} {scale.name} {when} instead of {scale.figure(ours)}"


def _row(other: ComparisonRow, plan: Plan, scale: ByteScale) -> tuple[str | float, ...]:
    if not other.has_figures:
        return (other.method, NOTHING, NOTHING, NOTHING, NOTHING, "no result")
    return (
        other.method,
        scale.of(other.volume_bytes),
        scale.of(other.training_volume_bytes),
        _ratio(other.training_volume_bytes, plan.metrics.training_volume_bytes),
        other.max_over_avg,
        "met" if other.meets(plan.settings.imbalance) else "over",
    )


def _ratio(num_bytes: int, ours: int) -> float:
    return num_bytes / ours if ours else NOTHING
