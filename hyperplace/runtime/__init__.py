"""What generated programs are made of, and what trains them: threads, messages, weights over time."""

from hyperplace.runtime.checkpoint import load_checkpoint, save_checkpoint
from hyperplace.runtime.devices import device_faults
from hyperplace.runtime.dropout import alpha_dropout, dropout, feature_alpha_dropout, feature_dropout
from hyperplace.runtime.load import load_program
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.main import main
from hyperplace.runtime.memory import constant, store
from hyperplace.runtime.norms import joint, normalise, statistics, track
from hyperplace.runtime.part import Part
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.schedule import Action, Schedule, schedule
from hyperplace.runtime.table import Copy, Feed, Keep, Output, Piece, Program, Receive, Segment, Send, Slot
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.weights import Training

__all__ = [
    "Action",
    "Copy",
    "Feed",
    "Keep",
    "Loss",
    "Output",
    "Part",
    "Piece",
    "Program",
    "Receive",
    "RunSettings",
    "Schedule",
    "Segment",
    "Send",
    "Slot",
    "Trainer",
    "Training",
    "alpha_dropout",
    "constant",
    "device_faults",
    "dropout",
    "feature_alpha_dropout",
    "feature_dropout",
    "joint",
    "load_checkpoint",
    "load_program",
    "main",
    "normalise",
    "save_checkpoint",
    "schedule",
    "statistics",
    "store",
    "track",
]
