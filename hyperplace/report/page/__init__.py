"""Pages to look at in a browser: a plan to explore, or any document, each one file that needs nothing else."""

from hyperplace.report.page.compose import Subject, plan_page

__all__ = ["Subject", "plan_page"]
