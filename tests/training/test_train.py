"""Training a plan: it learns, resumes to the same losses, on another k too, and stops when told to."""

import signal
import threading
from dataclasses import replace

import pytest
from training_cases import FLOW, SETTINGS, Runner

from hyperplace.errors import FileError, TrainingError, UsageError
from hyperplace.training import Flow

LONGER = replace(SETTINGS, epochs=4)


@pytest.fixture
def run(tmp_path) -> Runner:
    return Runner(tmp_path)


def losses(outcome) -> list[float]:
    return [row.train_loss for row in outcome.rows]


@pytest.mark.parametrize("flow", [FLOW, Flow("sync", threads=1, micro_batches=2), replace(FLOW, stash=False)])
def test_it_learns_and_says_how(run, flow) -> None:
    steps, epochs = [], []
    outcome = run(LONGER, flow=flow, on_step=steps.append, on_epoch=lambda shown, rows: epochs.append(shown))
    assert [row.epoch for row in outcome.rows] == [1, 2, 3, 4]
    assert losses(outcome)[-1] < losses(outcome)[0] / 2
    assert outcome.rows[-1].test_accuracy > 0.5
    assert [(shown.epoch, shown.step, shown.num_steps) for shown in steps[:7]] == [
        *((1, step, 6) for step in range(1, 7)),
        (2, 1, 6),
    ]
    assert [shown.test_accuracy for shown in epochs] == [row.test_accuracy for row in outcome.rows]
    assert outcome.moved_bytes > 0
    assert len(outcome.staleness) == 2


@pytest.mark.parametrize("flow", [FLOW, Flow("sync", threads=1)])
def test_resumed_losses_are_those_of_an_unbroken_run(run, flow, tmp_path) -> None:
    unbroken = Runner(tmp_path / "unbroken")(LONGER, flow=flow)
    run(SETTINGS, flow=flow)
    resumed = run(LONGER, flow=flow, resume=True)
    assert losses(resumed) == losses(unbroken)
    assert [row.test_accuracy for row in resumed.rows] == [row.test_accuracy for row in unbroken.rows]


def test_a_checkpoint_goes_on_with_another_k(tmp_path) -> None:
    sync = Flow("sync", threads=1)
    unbroken = Runner(tmp_path / "unbroken", dropout=0.0)(LONGER, flow=sync, k=1)
    run = Runner(tmp_path, dropout=0.0)  # every part has its own random numbers, so dropout depends on the plan
    run(SETTINGS, flow=sync, k=2)
    resumed = run(LONGER, flow=sync, k=3, resume=True)
    assert losses(resumed) == pytest.approx(losses(unbroken), rel=1e-3)


def test_an_epoch_that_was_broken_off_goes_on_where_it_stopped(run, tmp_path) -> None:
    sync = Flow("sync", threads=1)
    unbroken = Runner(tmp_path / "unbroken")(flow=sync)

    def press(shown) -> None:
        if (shown.epoch, shown.step) == (2, 3):
            signal.raise_signal(signal.SIGINT)

    broken = run(flow=sync, on_step=press)
    assert (broken.is_interrupted, len(broken.rows), broken.num_steps) == (True, 1, 3)
    resumed = run(flow=sync, resume=True)
    assert not resumed.is_interrupted
    assert losses(resumed) == losses(unbroken)


def test_a_second_ctrl_c_ends_at_once_and_still_saves(run) -> None:
    def press_twice(shown) -> None:
        if shown.step == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    broken = run(on_step=press_twice)
    assert broken.is_interrupted
    assert broken.num_steps <= 4
    assert len(run(resume=True).rows) == SETTINGS.epochs
    assert not [thread for thread in threading.enumerate() if "hyperplace" in thread.name]


@pytest.mark.parametrize("change", [{"lr": 0.1}, {"batch": 8}, {"seed": 3}, {"num_images": 48}])
def test_other_settings_than_the_checkpoints_are_refused(run, change) -> None:
    run()
    with pytest.raises(UsageError, match="was made with --"):
        run(replace(LONGER, **change), resume=True)


def test_a_checkpoint_of_somebody_else(run, tmp_path) -> None:
    with pytest.raises(FileError, match="no such file or directory; check the path"):
        run(resume=True)
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(FileError, match="is it a checkpoint, and whole"):
        run(resume=True)


def test_a_loss_that_is_not_finite_is_said_and_the_checkpoint_kept(run, tmp_path) -> None:
    run()
    before = (tmp_path / "checkpoint.pt").read_bytes()
    with pytest.raises(TrainingError, match="lower --lr"):
        run(replace(SETTINGS, lr=1e30, momentum=0.0), flow=FLOW)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    with pytest.raises(TrainingError, match=r"part \d failed in the"):
        run(replace(SETTINGS, lr=1e30, momentum=0.0), flow=replace(FLOW, check_nan=True))


def test_a_run_that_is_done_gives_its_rows_again_and_trains_nothing(run, tmp_path) -> None:
    """After a signal between the last checkpoint and the reports `--resume` was refused, they were never written."""
    first = run()
    before, timelines = (tmp_path / "checkpoint.pt").read_bytes(), []
    again = run(resume=True, flow=replace(FLOW, record=True), on_timeline=timelines.append)
    assert (again.rows, again.num_epochs, first.num_epochs) == (first.rows, 0, 2)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert not timelines


def test_fewer_epochs_than_there_are_is_said(run) -> None:
    run()
    with pytest.raises(UsageError, match="has 2 epochs already; give --epochs 3"):
        run(replace(SETTINGS, epochs=1), resume=True)
