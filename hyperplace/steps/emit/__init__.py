"""Emit: Program -> str, the program as Python that people can read and run."""

from hyperplace.steps.emit.emit import emit

__all__ = ["emit"]
