"""Pages to look at in a browser: a plan to explore, or any document, each one file that needs nothing else."""

from hyperplace.report.page.compose import Subject, document_page, plan_page
from hyperplace.report.page.live import live_page

__all__ = ["Subject", "document_page", "live_page", "plan_page"]
