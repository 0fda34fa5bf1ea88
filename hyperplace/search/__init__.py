"""Several searches for one placement, side by side; the best balanced result wins, so no baseline we hold is better.

The general partitioners see blocks of the hypergraph. The local search and the exact program see runs of filters and
share out whole filters. What each finds is a layout, the owner of every cell, and all are judged by the nets of its
hypergraph, in bytes, or by another objective. Everything runs in threads: the partitioners wait for a process, the
local search and HiGHS leave Python's lock.
"""

from hyperplace.search.best import OnProgress
from hyperplace.search.candidate import Candidate
from hyperplace.search.names import BASELINES, NAMES, SYMMETRIC, only_grain
from hyperplace.search.problem import Objective
from hyperplace.search.search import UNWATCHED, Watch, check_name, hypergraph_of, search, search_grains

__all__ = [
    "BASELINES",
    "NAMES",
    "SYMMETRIC",
    "UNWATCHED",
    "Candidate",
    "Objective",
    "OnProgress",
    "Watch",
    "check_name",
    "hypergraph_of",
    "only_grain",
    "search",
    "search_grains",
]
