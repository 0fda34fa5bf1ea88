"""Several searches for one placement, side by side; the best balanced result wins, so no baseline we hold is better.

The general partitioners see blocks of the hypergraph. The local search and the exact program see runs of filters,
share out whole filters, and get a hypergraph cut just where their shares change. All are judged by their hypergraph, in
bytes. Everything runs in threads: the partitioners wait for a process, the local search and HiGHS leave Python's lock.
"""

from hyperplace.portfolio.board import OnProgress
from hyperplace.portfolio.candidate import Found
from hyperplace.portfolio.names import BASELINES, NAMES, SYMMETRIC, only_grain
from hyperplace.portfolio.search import check_name, limited, search, search_grains

__all__ = [
    "BASELINES",
    "NAMES",
    "SYMMETRIC",
    "Found",
    "OnProgress",
    "check_name",
    "limited",
    "only_grain",
    "search",
    "search_grains",
]
