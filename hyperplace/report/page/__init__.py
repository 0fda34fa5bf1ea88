"""Pages to look at in a browser: a plan to explore, or any document, each one file that needs nothing else."""

from hyperplace.report.page.compose import Subject, document_page, plan_page

__all__ = ["Subject", "document_page", "plan_page"]
