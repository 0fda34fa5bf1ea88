"""Capture: nn.Module + sample input -> Graph."""

from hyperplace.steps.capture.capture import capture

__all__ = ["capture"]
