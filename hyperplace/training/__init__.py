"""Train a planned model on a data set, epoch by epoch: progress, checkpoints, resuming, the plain loop beside it."""

from hyperplace.runtime.hosts.joining import is_started, joined, shared_text
from hyperplace.runtime.hosts.meeting import check_size
from hyperplace.runtime.survival.door import plan_behind
from hyperplace.training.epoch import Snapshot
from hyperplace.training.nodes import AverageWish, average_over_nodes
from hyperplace.training.run import Outcome, train
from hyperplace.training.sets import Sets, load_sets
from hyperplace.training.settings import DATA, Flow, TrainSettings
from hyperplace.training.versus import train_beside_plain

__all__ = [
    "DATA",
    "AverageWish",
    "Flow",
    "Outcome",
    "Sets",
    "Snapshot",
    "TrainSettings",
    "average_over_nodes",
    "check_size",
    "is_started",
    "joined",
    "load_sets",
    "plan_behind",
    "shared_text",
    "train",
    "train_beside_plain",
]
