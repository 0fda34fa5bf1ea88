"""Schedule: Program -> Schedule, and a dry run of it."""

from hyperplace.steps.schedule.dry_run import DryRun, dry_run
from hyperplace.steps.schedule.memory import memory
from hyperplace.steps.schedule.schedule import schedule

__all__ = ["DryRun", "dry_run", "memory", "schedule"]
