"""Measure how fast a model trains: plain loops, plans and what torch offers by turns, on threads or on hosts."""

from hyperplace.bench.contender import BenchSettings, Contender
from hyperplace.bench.host_contender import HostSettings, check_hosts
from hyperplace.bench.hosts import bench_hosts
from hyperplace.bench.measure import Measured, bench, check_images
from hyperplace.bench.netns import Card

__all__ = [
    "BenchSettings",
    "Card",
    "Contender",
    "HostSettings",
    "Measured",
    "bench",
    "bench_hosts",
    "check_hosts",
    "check_images",
]
