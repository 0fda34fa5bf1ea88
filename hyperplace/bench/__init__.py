"""Measure how fast a model trains: plain loops and plans by turns, from the same weights on the same mini-batches."""

from hyperplace.bench.contender import BenchSettings, Contender
from hyperplace.bench.measure import Measured, bench

__all__ = ["BenchSettings", "Contender", "Measured", "bench"]
