"""What README shows to Python users runs as it stands there."""

import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import hyperplace

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_examples_of_training_run(tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(8 * 16, 4)
    model, sample = nn.Sequential(*layers), torch.randn(8, 3, 6, 6)
    names = {
        "hyperplace": hyperplace,
        "torch": torch,
        "F": F,
        "model": model,
        "sample": sample,
        "plan": hyperplace.place(model, sample, k=2, batch=8, imbalance=1.0, partitioner="horizontal"),
        "loader": [(torch.randn(8, 3, 6, 6), torch.randint(4, (8,))) for _ in range(3)],
        "epochs": 2,
    }
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "compile(" in block]
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)
    assert "epoch 1: " in capsys.readouterr().out
    assert names["outputs"].shape == (8, 4)
    (shown,) = re.findall(r"# Later.*: (.*)", blocks[1])
    with hyperplace.compile(
        model, names["plan"], optimizer=names["optimizer"], loss=F.mse_loss, named_parameters=True
    ) as t:
        exec(shown, names | {"trainer": t}, found := {})
    assert found["extra"] == {"epoch": 1}
