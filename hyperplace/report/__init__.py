"""Report: finished values -> a document -> terminal, Markdown, CSV. It shows what others found and decides nothing."""

from hyperplace.report.averaging import averaging_document
from hyperplace.report.bench import bench_document
from hyperplace.report.comparison import comparison_document
from hyperplace.report.document import Column, Document, Figure, Section, Table, Text
from hyperplace.report.explanation import explanation_document
from hyperplace.report.forecast import forecast_document
from hyperplace.report.history import history_document
from hyperplace.report.overview import overview_document
from hyperplace.report.plan import plan_document
from hyperplace.report.profile import profile_document
from hyperplace.report.sweep import sweep_document
from hyperplace.report.terminal import plain_text, show
from hyperplace.report.timeline import timeline_document
from hyperplace.report.writers import csv_text, markdown_text

__all__ = [
    "Column",
    "Document",
    "Figure",
    "Section",
    "Table",
    "Text",
    "averaging_document",
    "bench_document",
    "comparison_document",
    "csv_text",
    "explanation_document",
    "forecast_document",
    "history_document",
    "markdown_text",
    "overview_document",
    "plain_text",
    "plan_document",
    "profile_document",
    "show",
    "sweep_document",
    "timeline_document",
]
