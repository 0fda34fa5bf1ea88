"""What generated programs are made of, and what trains them: threads, messages, weights over time."""

from hyperplace.runtime.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.main import main
from hyperplace.runtime.operations import (
    alpha_dropout,
    constant,
    dropout,
    feature_alpha_dropout,
    feature_dropout,
    joint,
    normalise,
    statistics,
    store,
    track,
)
from hyperplace.runtime.run_settings import RunSettings, device_faults
from hyperplace.runtime.runnable import Part, Runnable, program, runnable
from hyperplace.runtime.survival.survivor import Survivor
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.weights import Training
from hyperplace.values.call import Rows
from hyperplace.values.program import Copy, Feed, Keep, Message, Output, Piece, Receive, Segment, Send, Slot

__all__ = [
    "Copy",
    "Feed",
    "Keep",
    "Loss",
    "Message",
    "Output",
    "Part",
    "Piece",
    "Receive",
    "Rows",
    "RunSettings",
    "Runnable",
    "Segment",
    "Send",
    "Slot",
    "Survivor",
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
    "main",
    "normalise",
    "program",
    "runnable",
    "save_checkpoint",
    "statistics",
    "store",
    "track",
]
