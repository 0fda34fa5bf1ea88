"""Past bugs of checkpoints: files that were believed, full disks, and what killed processes left behind."""

import os
import subprocess
import sys

import pytest
import torch
from handmade import ZIGZAG, batches, squared, state_of
from interrupts import same

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.runtime import RunSettings, Trainer, Training, load_checkpoint, save_checkpoint

(X, Y), (OTHER_X, OTHER_Y) = batches(2)


def adam_trainer():
    training = Training(
        lambda ps: torch.optim.Adam(ps, lr=0.05),
        scheduler=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3),
        average=torch.optim.swa_utils.AveragedModel,
    )
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=squared, settings=RunSettings(in_flight=1))


MALFORMED = {
    "no model": lambda c: c.pop("model"),
    "no groups": lambda c: c.pop("groups"),
    "model a list": lambda c: c.update(model=[1]),
    "model a number": lambda c: c["model"].update(a=3.0),
    "model lacks one": lambda c: c["model"].pop("a"),
    "model of another shape": lambda c: c["model"].update(a=torch.zeros(3)),
    "optimizer a list": lambda c: c.update(optimizer=[]),
    "optimizer state a number": lambda c: c["optimizer"].update(a=5),
    "moments of another shape": lambda c: c["optimizer"]["a"].update(exp_avg=torch.zeros(7)),
    "moments a text": lambda c: c["optimizer"]["a"].update(exp_avg="zero"),
    "a step that is no number": lambda c: c["optimizer"]["a"].update(step=torch.tensor(float("nan"))),
    "a step below zero": lambda c: c["optimizer"]["a"].update(step=-1),
    "params in groups": lambda c: c["groups"][0].update(params=[]),
    "no group": lambda c: c.update(groups=[]),
    "a group that is a number": lambda c: c.update(groups=[3]),
    "a rate that is a text": lambda c: c["groups"][0].update(lr="fast"),
    "a rate that is no number": lambda c: c["groups"][0].update(lr=float("nan")),
    "betas of three": lambda c: c["groups"][0].update(betas=(0.1, 0.2, 0.3)),
    "a scheduler's method": lambda c: c["scheduler"].update(step=3),
    "a scheduler's count a text": lambda c: c["scheduler"].update(last_epoch="x"),
    "scheduler a list": lambda c: c.update(scheduler=[1]),
    "average lacks one": lambda c: c["average"].pop("a"),
    "average a number": lambda c: c.update(average=4),
    "num_averaged no number": lambda c: c.update(num_averaged=float("nan")),
    "num_averaged a tensor": lambda c: c.update(num_averaged=torch.ones(3)),
    "num_batches below zero": lambda c: c.update(num_batches=-5),
    "num_batches a text": lambda c: c.update(num_batches="5"),
    "extra a list": lambda c: c.update(extra=[1]),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_checkpoint_is_refused_before_anything_is_replaced(what, tmp_path):
    """KeyError, AttributeError, TypeError or IndexError, with some weights replaced and others not."""
    with adam_trainer() as trainer:
        trainer.step(X, Y).item()
        save_checkpoint(trainer, tmp_path / "good.pt")
        content = torch.load(tmp_path / "good.pt", weights_only=True)
        MALFORMED[what](content)
        torch.save(content, tmp_path / "bad.pt")
        trainer.step(OTHER_X, OTHER_Y).item()
        before = trainer.state_dict()
        with pytest.raises(HyperplaceError) as caught:
            load_checkpoint(trainer, tmp_path / "bad.pt")
        assert (
            isinstance(caught.value, FileError)
            or "another model" in str(caught.value)
            or "not a tensor" in str(caught.value)
        )
        assert same(trainer.state_dict(), before)
        assert trainer.num_batches == 2
        load_checkpoint(trainer, tmp_path / "good.pt")
        assert trainer.num_batches == 1


FULL = """
import resource, signal, sys
sys.path.insert(0, {folder!r})
from interrupts import make
from hyperplace.errors import FileError
from hyperplace.runtime import save_checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with make("sync") as trainer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    try:
        save_checkpoint(trainer, sys.argv[1])
    except FileError as fault:
        print(fault)
"""


def test_a_full_disk_is_said_in_one_line_and_nothing_is_left(tmp_path):
    """torch said "unexpected pos 704 vs 598" in a traceback. A limit of a file's size stands for the disk's."""
    script = FULL.format(folder=os.path.dirname(sys.modules["interrupts"].__file__))
    command = [sys.executable, "-c", script, str(tmp_path / "c.pt")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.stdout.startswith(f"cannot write {tmp_path / 'c.pt'}: file too large"), ran
    assert not list(tmp_path.iterdir())


def test_temporary_files_of_killed_processes_are_removed(tmp_path):
    from hyperplace.files.write import remove_leftovers

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f".hyperplace-{ended.pid}-0123456789abcdef.tmp").touch()
    kept = [f".hyperplace-{os.getpid()}-0123456789abcdef.tmp", "mine.tmp", ".hyperplace-notes.tmp"]
    for name in kept:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
