"""Schedule: Program -> Schedule."""

from hyperplace.steps.schedule.schedule import schedule

__all__ = ["schedule"]
