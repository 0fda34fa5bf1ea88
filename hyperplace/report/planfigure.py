"""The figure beside every plan: the layer map, the work of the parts, and what they receive."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hyperplace.report.maplines import MapLine, line_edges, map_lines, traffic
from hyperplace.report.palette import part_color
from hyperplace.report.titles import set_title, shortened
from hyperplace.report.work import work_scale
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Plan
from hyperplace.values.sizes import ByteScale, byte_scale, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, RED, PALE = "#555555", "#c0392b", "#a8a8a8"
MOST_COLORS, MOST_TICKS = 16, 8
MOST_CHARACTERS = 46  # of a layer's name beside its bar
MOST_ARROWS = 250  # beyond which only those over which something crosses are drawn


def plan_figure(plan: Plan) -> "Figure":
    """Return the figure, without touching any global state of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = map_lines(plan)
    num_bars = sum(2 if line.kernels else 1 for line in lines)
    height = min(max(5.5, 1.6 + 0.23 * num_bars), 24)
    figure = Figure(figsize=(13, height), layout="constrained")
    FigureCanvasAgg(figure)
    heights = (4, 4, height - 8) if height > 9 else (1, 1)  # a long map does not stretch the charts
    grid = figure.add_gridspec(len(heights), 2, width_ratios=(1.9, 1), height_ratios=heights)
    _draw_map(figure.add_subplot(grid[:, 0]), plan, lines)
    _draw_work(figure.add_subplot(grid[0, 1]), plan)
    _draw_received(figure.add_subplot(grid[1, 1]), plan)
    _draw_legend(figure, plan.settings.k)
    set_title(figure, plan_title(plan))
    return figure


def plan_title(plan: Plan) -> str:
    """Say in a line what the plan is and costs."""
    settings, metrics = plan.settings, plan.metrics
    over = "" if metrics.feasible else " (over the limit)"
    when = "in training" if metrics.judges_training else "forward"
    return (
        f"{settings.model} on {settings.k} parts, {settings.grain} by {settings.partitioner}: "
        f"{size(metrics.judged_bytes)} {when}, max/avg {metrics.max_over_avg:.3f}{over}"
    )


def _draw_map(axes: "Axes", plan: Plan, lines: tuple[MapLine, ...]) -> None:
    """Draw a bar per line, thin ones for kernels below, and the bytes that leave to the right."""
    labels, position = [], 0.0
    most = max(max(line.sent_bytes, line.partial_bytes) for line in lines)
    scale = byte_scale([most])
    ticks = []
    for line in lines:
        _draw_runs(axes, line, position, plan.settings.k)
        _write_bytes(axes, position + 0.4, line.sent_bytes, most, scale)
        ticks.append(position + 0.4)
        labels.append(_label(line))
        if line.kernels:
            _write_bytes(axes, position + 1.05, line.partial_bytes, most, scale)
        position += 1.55 if line.kernels else 1.0
    _draw_arrows(axes, line_edges(plan, lines), ticks)
    axes.set_yticks(ticks, labels, fontsize=8 if len(lines) <= 60 else 6, parse_math=False)
    axes.set(xlim=(0, 1.14), ylim=(position, -0.6), xticks=[0, 0.25, 0.5, 0.75, 1])
    all_of = "all rows or filters" if plan.metrics.judges_training else "all filters"
    axes.set_xticklabels(["0", "25 %", "50 %", "75 %", all_of])
    axes.set_title(_map_title(plan, lines), fontsize=10, loc="left")
    figure = f"{'moves' if plan.metrics.judges_training else 'leaves'} {scale.name}"
    axes.text(1.13, -0.3, figure, ha="right", va="center", fontsize=8, color=GREY)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _map_title(plan: Plan, lines: tuple[MapLine, ...]) -> str:
    if plan.metrics.judges_training:
        return "Owner of every filter, or, hatched, of every row where rows are split"
    thin = "; thin: who computes the kernels" if any(line.kernels for line in lines) else ""
    return f"Owner of every filter{thin}"


def _label(line: MapLine) -> str:
    if line.num_layers == 1:
        name = shortened(line.first, MOST_CHARACTERS)
        return f"{name} ({line.split})" if line.split.startswith("by") else name
    first, last = (shortened(name, MOST_CHARACTERS // 2) for name in (line.first, line.last))
    return f"{first} .. {last} ({line.num_layers} layers)"


def _draw_arrows(axes: "Axes", edges: Mapping[tuple[int, int], int], heights: Sequence[float]) -> None:
    """Draw who reads whom, right of the bars: dark and as wide as the bytes that cross, pale where nothing does."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    most = max(edges.values(), default=0)
    shown = {pair: size for pair, size in edges.items() if size or len(edges) <= MOST_ARROWS}
    for (source, target), num_bytes in shown.items():
        begin, end = heights[source] + 0.12, heights[target] - 0.12
        # The further it goes, the further it bends out, so that a skip goes around what it skips.
        bend = 1.006 + min(0.058, 0.02 + 0.008 * (abs(target - source) - 1))
        curve = Path([(1.004, begin), (bend, begin), (bend, end), (1.004, end)], [Path.MOVETO, *[Path.CURVE4] * 3])
        width = 0.8 + 1.2 * num_bytes / most if num_bytes else 0.7
        arrow = FancyArrowPatch(
            path=curve,
            arrowstyle="-|>",
            mutation_scale=6 + 3 * width,
            linewidth=width,
            color=GREY if num_bytes else PALE,
        )
        axes.add_patch(arrow)


def _draw_runs(axes: "Axes", line: MapLine, position: float, num_parts: int) -> None:
    for runs, top, height in ((line.owners, position, 0.8), (line.kernels, position + 0.88, 0.34)):
        total, first, spans = sum(run.size for run in runs), 0, []
        for run in runs:
            spans.append((first / total, run.size / total))
            first += run.size
        colors = [part_color(run.part, num_parts) for run in runs]
        edge = "white" if len(runs) <= 32 else "none"
        hatch = {"by rows": "///", "by both": "xx"}.get(line.split, "")
        axes.broken_barh(spans, (top, height), facecolors=colors, edgecolor=edge, linewidth=0.4, hatch=hatch)


def _write_bytes(axes: "Axes", height: float, num_bytes: int, most: int, scale: ByteScale) -> None:
    if num_bytes:
        costly = 2 * num_bytes >= most
        text = scale.figure(num_bytes) if scale.of(num_bytes) >= 0.05 else "<0.1"
        weight, color = ("bold", RED) if costly else ("normal", GREY)
        axes.text(1.13, height, text, ha="right", va="center", fontsize=8, color=color, fontweight=weight)


def _draw_legend(figure: "Figure", num_parts: int) -> None:
    """Name the colours; of many parts only a few, since their colours run through the rainbow."""
    from matplotlib.patches import Patch

    step = -(-num_parts // MOST_COLORS)
    parts = range(0, num_parts, step)
    handles = [Patch(color=part_color(part, num_parts), label=f"{part}") for part in parts]
    figure.legend(
        handles=handles,
        title="part" if step == 1 else f"every {step}th part",
        ncols=len(handles),
        loc="outside lower center",
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        handlelength=0.9,
        handletextpad=0.3,
        columnspacing=0.9,
    )


def _draw_work(axes: "Axes", plan: Plan) -> None:
    """Draw the work of every part under the limit; a part over it is hatched."""
    work, unit, k = plan.metrics.work_per_part, plan.metrics.work_unit, plan.settings.k
    scale = work_scale((amount, unit) for amount in work)
    limit = balance_limit(plan.metrics.total_work, k, plan.settings.imbalance)
    bars = axes.bar(range(k), [scale.of(amount, unit) for amount in work], color=_colors(k), width=0.8)
    for bar, amount in zip(bars, work, strict=True):
        if amount > limit:
            bar.set(hatch="///", edgecolor=RED)
    name = f"limit (imbalance {plan.settings.imbalance:g})"
    axes.axhline(scale.of(limit, unit), color=RED, linewidth=1.2, label=name)
    average = scale.of(plan.metrics.total_work / k, unit)
    axes.axhline(average, color=GREY, linewidth=1, linestyle=":", label="average")
    top = max(scale.of(max(work), unit), scale.of(limit, unit))
    _finish(axes, k, f"Work per part ({scale.name})", 1.22 * top)
    axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=8)


def _draw_received(axes: "Axes", plan: Plan) -> None:
    k = plan.settings.k
    scale = byte_scale(traffic(plan)[1])
    received = [scale.of(num_bytes) for num_bytes in traffic(plan)[1]]
    axes.bar(range(k), received, color=_colors(k), width=0.8)
    when = "in training" if plan.metrics.judges_training else "forward"
    _finish(axes, k, f"Received per part, {when} ({scale.name})", 1.1 * max(received))
    axes.set_xlabel("part", fontsize=9)


def _finish(axes: "Axes", num_parts: int, title: str, top: float) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set(xlim=(-0.6, num_parts - 0.4), ylim=(0, top or 1))
    step = -(-num_parts // MOST_TICKS)
    axes.set_xticks(range(0, num_parts, step))
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _colors(num_parts: int) -> list[str]:
    return [part_color(part, num_parts) for part in range(num_parts)]
