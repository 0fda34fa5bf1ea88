"""Lower: Graph + Plan -> Program, what every part does as data."""

from hyperplace.steps.lower.lower import lower

__all__ = ["lower"]
