"""An epoch: nobody asks for a loss that is under way, and the plain loop learns what a trainer learns."""

import pytest
import torch
from training_cases import FLOW, SETTINGS, net, plan, sets

from hyperplace.errors import UsageError
from hyperplace.training import Flow, Snapshot, TrainSettings, load_sets, train_beside_plain
from hyperplace.training.epoch import Epoch, Progress
from hyperplace.training.learner import Judge, intra_op_threads


class SlowLoss:
    def __init__(self, owner: "SlowLearner", number: int) -> None:
        self._owner, self._number = owner, number

    @property
    def is_ready(self) -> bool:
        return self._owner.is_flushed or self._number < self._owner.num_steps - 3

    def item(self) -> float:
        assert self.is_ready, "asking now would let the pipe run dry"
        return 1.0


class SlowLearner:
    """Losses are known three mini-batches later."""

    staleness = ()

    def __init__(self) -> None:
        self.num_steps, self.is_flushed = 0, False

    def step(self, x: torch.Tensor, y: torch.Tensor) -> SlowLoss:
        self.num_steps += 1
        return SlowLoss(self, self.num_steps - 1)

    def flush(self) -> None:
        self.is_flushed = True

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 10)

    def total(self, *counts: int) -> tuple[int, ...]:
        return counts

    def rows_fed(self, num_rows: int) -> tuple[tuple[int, int], ...]:
        return ((0, num_rows),)


def test_losses_are_read_when_they_are_ready() -> None:
    shown: list[Snapshot] = []
    progress = Progress("slow")
    last = Epoch(SlowLearner(), Judge(), progress, SETTINGS, sets(), shown.append).run()
    assert last is not None
    assert (last.loss, last.step) == (1.0, 6)
    assert (progress.epoch, progress.num_steps, progress.rows[0].train_loss) == (1, 0, 1.0)


def test_plain_and_split_by_turns() -> None:
    """With one mini-batch in flight and nothing split both see the same numbers."""
    rows = train_beside_plain(
        lambda seed: net(seed, dropout=0.0),
        plan(1),
        SETTINGS,
        sets(),
        flow=Flow(in_flight=1, threads=1),
        seeds=(0, 1),
    )
    methods = [row.method for row in rows]
    assert methods == ["plain loop, 1 thread", "k=1 async, 1 in flight"] * 4
    assert [row.seed for row in rows] == [0] * 4 + [1] * 4
    for plain, split in zip(rows[::2], rows[1::2], strict=True):
        assert split.train_loss == pytest.approx(plain.train_loss, rel=1e-6)
        assert split.test_accuracy == plain.test_accuracy
    assert rows[0].train_loss != rows[4].train_loss, "another seed, other weights and another order"


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with intra_op_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_snapshot_is_one_line() -> None:
    shown = Snapshot("k=2 async", 0, 1, 5, 10, 100, 0.51234, 0.8123, 1234.5, (2.0, 0.0), 0.9)
    assert str(shown) == "loss 0.5123  train 81.2%  test 90.00%  1,234 images/s  staleness 2.0 0.0"
    assert Snapshot("k=8", 0, 1, 5, 1, 1, 0.0, 0.0, 0.0, (0.5,) * 8).shown_staleness == "up to 0.5"


def test_fewer_images_keep_the_share_of_test_images() -> None:
    found = load_sets(TrainSettings("synthetic", num_images=60), [(3, 8, 8)])
    assert (len(found.train), len(found.test), found.train.shape) == (60, 10, (3, 8, 8))


@pytest.mark.parametrize("inputs", [[], [(1, 8, 8), (1, 8, 8)], [(10,)]])
def test_a_model_that_reads_no_single_image(inputs) -> None:
    with pytest.raises(UsageError, match="but the data are single images"):
        load_sets(SETTINGS, inputs)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"data": "cifar"}, "data 'cifar' is unknown"),
        ({"epochs": 0}, "--epochs 0"),
        ({"batch": -1}, "--batch -1"),
        ({"num_images": 0}, "--images 0"),
        ({"lr": 0.0}, "--lr 0.0"),
        ({"lr": float("nan")}, "--lr nan"),
        ({"momentum": 1.0}, "--momentum 1.0"),
        ({"seed": -1}, "--seed 0 or more"),
    ],
)
def test_bad_settings(words, fault) -> None:
    with pytest.raises(UsageError, match=fault):
        TrainSettings(**words)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ({"schedule": "later"}, "schedule 'later' is unknown"),
        ({"in_flight": 0}, "in_flight 0"),
        ({"micro_batches": 2}, "for the sync schedule"),
        ({"micro_batches": 0}, "--micro-batches 0"),
        ({"threads": 0}, "--threads 0"),
        ({"devices": ("gpu",)}, "--device gpu"),
        ({"devices": ("cuda:99",)}, "--device cuda:99 is not here"),
        ({"devices": ("meta",)}, "--device meta"),
    ],
)
def test_bad_flow(words, fault) -> None:
    with pytest.raises(UsageError, match=fault):
        Flow(**words)


def test_devices_are_one_or_one_each() -> None:
    assert FLOW.devices_for(3) == ("cpu",) * 3
    with pytest.raises(UsageError, match="2 devices for 3 parts"):
        Flow(devices=("cpu", "cpu")).devices_for(3)
