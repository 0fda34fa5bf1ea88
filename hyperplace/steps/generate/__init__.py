"""Generate: Graph + Plan -> str, the plan as a Python program."""

from hyperplace.steps.generate.generate import generate

__all__ = ["generate"]
