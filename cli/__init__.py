"""The command line: `hyperplace partition vgg16 --k 4 --imbalance 0.1`."""

from .main import main

__all__ = ["main"]
