"""A net that learns in a second, its plans, and made-up images for it."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import hyperplace
from hyperplace.training import Flow, Outcome, Sets, TrainSettings, load_sets, train
from hyperplace.values.plan import Plan

SHAPE = (1, 8, 8)
SETTINGS = TrainSettings("synthetic", num_images=96, epochs=2, batch=16, lr=0.05)
FLOW = Flow(threads=1)


def net(seed: int = 0, dropout: float = 0.1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def plan(k: int) -> Plan:
    return hyperplace.place(net(), torch.zeros(2, *SHAPE), k=k, partitioner="incremental", batch=16)


def sets(settings: TrainSettings = SETTINGS) -> Sets:
    return load_sets(settings, [SHAPE])


@dataclass(frozen=True)
class Runner:
    """Train the net in a folder."""

    folder: Path
    dropout: float = 0.1

    def __call__(
        self, settings: TrainSettings = SETTINGS, *, k: int = 2, flow: Flow = FLOW, **words: object
    ) -> Outcome:
        checkpoint = self.folder / "checkpoint.pt"
        model = net(settings.seed, self.dropout)
        return train(model, plan(k), settings, sets(settings), flow=flow, checkpoint=checkpoint, **words)  # type: ignore[arg-type]
