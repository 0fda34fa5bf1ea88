"""A bug once found: updates of the sync schedule were missing from the timeline, and counted as bubble."""

import torch
from torch import nn
from torch.nn import functional

import hyperplace


def test_every_update_of_every_part_is_recorded() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 4))
    plan = hyperplace.place(model, torch.zeros(2, 1, 8, 8), k=2, partitioner="incremental", batch=4)
    with hyperplace.compile(
        model,
        plan,
        optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1),
        loss=functional.cross_entropy,
        schedule="sync",
        micro_batches=2,
        record=True,
    ) as trainer:
        for _ in range(3):
            trainer.step(torch.randn(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))
        events = trainer.timeline().events
    assert sorted((event.part, event.batch) for event in events if event.kind == "update") == [
        (part, batch) for part in (0, 1) for batch in (1, 3, 5)
    ]
