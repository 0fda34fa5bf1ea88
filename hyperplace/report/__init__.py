"""Report: finished values -> tables, the layer map and figures. It draws what others found and decides nothing."""

from hyperplace.report.bench import bench_csv, bench_markdown, bench_table, bench_text, render_bench
from hyperplace.report.comparison import (
    comparison_csv,
    comparison_figure,
    comparison_markdown,
    comparison_text,
    epoch_table,
    render_comparison,
    volume_table,
    work_table,
)
from hyperplace.report.figure import plan_figure
from hyperplace.report.gantt import timeline_figure
from hyperplace.report.history import final_table, history_csv, history_figure, history_markdown, history_table
from hyperplace.report.layermap import layer_map, whole_layers
from hyperplace.report.parts import parts_table, render_parts
from hyperplace.report.timeline import render_timeline, timeline_table
from hyperplace.report.versus import render_versus, versus_table

__all__ = [
    "bench_csv",
    "bench_markdown",
    "bench_table",
    "bench_text",
    "comparison_csv",
    "comparison_figure",
    "comparison_markdown",
    "comparison_text",
    "epoch_table",
    "final_table",
    "history_csv",
    "history_figure",
    "history_markdown",
    "history_table",
    "layer_map",
    "parts_table",
    "plan_figure",
    "render_bench",
    "render_comparison",
    "render_parts",
    "render_timeline",
    "render_versus",
    "timeline_figure",
    "timeline_table",
    "versus_table",
    "volume_table",
    "whole_layers",
    "work_table",
]
