"""A checkpoint does not know the plan: it loads into any other, and training goes on as if nothing had happened."""

import json

import pytest
import torch
from handmade import TWO_LINEARS, squared, state_of
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

import hyperplace
from hyperplace.errors import FileError, UsageError
from hyperplace.runtime import Trainer, Training, load_checkpoint, save_checkpoint

OPTIMIZERS = {
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9),
    "adam": lambda ps: torch.optim.AdamW(ps, lr=0.01),
}


class Net(nn.Module):
    def __init__(self, filters=8):
        super().__init__()
        self.a, self.n, self.b = nn.Conv2d(3, filters, 3), nn.BatchNorm2d(filters), nn.Linear(filters * 16, 4)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return self.b(self.drop(F.relu(self.n(self.a(x))).flatten(1)))


def data(count):
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(4, 3, 6, 6, generator=generator), torch.randint(4, (4,), generator=generator))
        for _ in range(count)
    ]


def trainer_of(k, optimizer, grain="coarse", in_flight=1, filters=8):
    torch.manual_seed(0)
    net = Net(filters)
    plan = hyperplace.place(
        net, data(1)[0][0], k=k, imbalance=1.0, batch=4, grain=grain, partitioner="horizontal", blocks=4
    )
    return hyperplace.compile(
        net,
        plan,
        optimizer=OPTIMIZERS[optimizer],
        loss=F.cross_entropy,
        in_flight=in_flight,
        scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 3),
        average=AveragedModel,
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_resumed_run_has_the_same_losses(tmp_path, optimizer):
    with trainer_of(2, optimizer, in_flight=3) as trainer:
        for x, y in data(8)[:4]:
            trainer.step(x, y)
        save_checkpoint(trainer, tmp_path / "c.pt", {"epoch": 1})
        wanted = [trainer.step(x, y) for x, y in data(8)[4:]]
        trainer.flush()
        state, averaged = trainer.state_dict(), trainer.averaged_state_dict()
    with trainer_of(2, optimizer, in_flight=3) as trainer:
        assert load_checkpoint(trainer, tmp_path / "c.pt") == {"epoch": 1}
        found = [trainer.step(x, y) for x, y in data(8)[4:]]
        trainer.flush()
        assert [loss.item() for loss in found] == [loss.item() for loss in wanted]
        assert all(torch.equal(state[n], trainer.state_dict()[n]) for n in state)
        assert all(torch.equal(averaged[n], trainer.averaged_state_dict()[n]) for n in averaged)


@pytest.mark.parametrize("name", ["c.pt", "c"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("k", "grain"), [(1, "coarse"), (3, "coarse"), (2, "fine")])
def test_a_checkpoint_loads_into_another_plan(tmp_path, optimizer, k, grain, name):
    with trainer_of(2, optimizer) as trainer:
        for x, y in data(3):
            trainer.step(x, y)
        save_checkpoint(trainer, tmp_path / "c.pt")
        save_checkpoint(trainer, tmp_path / "c", sharded=True)
        saved = trainer.state_dict()
    with trainer_of(k, optimizer, grain) as trainer:
        load_checkpoint(trainer, tmp_path / name)
        assert all(torch.equal(saved[n], trainer.state_dict()[n]) for n in saved)
        save_checkpoint(trainer, tmp_path / "d.pt")
    one, other = (torch.load(tmp_path / file, weights_only=True) for file in ("c.pt", "d.pt"))
    assert one.keys() == other.keys()
    assert one["optimizer"].keys() == other["optimizer"].keys()
    for name, state in one["optimizer"].items():
        for key, value in state.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(other["optimizer"][name][key])), (name, key)


def test_the_plain_model_loads_what_was_trained():
    with trainer_of(3, "momentum") as trainer:
        for x, y in data(3):
            trainer.step(x, y)
        net = Net()
        net.load_state_dict(trainer.state_dict())
        net.eval()
        x = data(1)[0][0]
        assert torch.allclose(net(x), trainer.predict(x), atol=1e-6)


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    handmade = Trainer(TWO_LINEARS, state_of(TWO_LINEARS), training=Training(OPTIMIZERS["adam"]), loss=squared)
    with handmade as trainer:
        (tmp_path / "text.pt").write_text("hello")
        torch.save({"a": 1}, tmp_path / "other.pt")
        save_checkpoint(trainer, tmp_path / "good.pt")
        (tmp_path / "cut.pt").write_bytes((tmp_path / "good.pt").read_bytes()[:300])
        torch.save({**torch.load(tmp_path / "good.pt", weights_only=True), "version": 9}, tmp_path / "new.pt")
        for name, words in [
            ("text.pt", "is it a checkpoint, and whole"),
            ("cut.pt", "is it a checkpoint, and whole"),
            ("missing.pt", "no such file"),
            ("other.pt", "not a checkpoint"),
            ("new.pt", "version 9"),
        ]:
            with pytest.raises(FileError, match=words):
                load_checkpoint(trainer, tmp_path / name)
        with trainer_of(1, "adam") as another, pytest.raises(UsageError, match="belongs to another model"):
            load_checkpoint(another, tmp_path / "good.pt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.pt", "good.pt", "new.pt", "other.pt", "text.pt"]


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


def test_shards_that_are_not_all_or_of_another_model_are_refused(tmp_path):
    with trainer_of(2, "adam") as trainer:
        save_checkpoint(trainer, tmp_path / "c", sharded=True)
    for filters in (4, 12):
        with trainer_of(2, "adam", filters=filters) as other, pytest.raises(FileError, match=r"not .* another model"):
            load_checkpoint(other, tmp_path / "c")
    index = json.loads((tmp_path / "c" / "checkpoint.json").read_text())
    for files in (index["files"][:1], []):
        (tmp_path / "c" / "checkpoint.json").write_text(json.dumps(index | {"files": files}))
        with trainer_of(3, "adam") as other, pytest.raises(FileError, match=r"c does not hold all of [abn]\."):
            load_checkpoint(other, tmp_path / "c")


def test_nothing_in_a_checkpoint_is_executed(tmp_path, capsys):
    torch.save({"hyperplace": "checkpoint", "version": 1, "model": Evil()}, tmp_path / "evil.pt")
    with trainer_of(1, "adam") as trainer, pytest.raises(FileError):
        load_checkpoint(trainer, tmp_path / "evil.pt")
    assert "executed" not in capsys.readouterr().out
