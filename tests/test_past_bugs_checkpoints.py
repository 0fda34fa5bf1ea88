"""Past bugs of checkpoints: files that were believed, full disks, and what killed processes left behind."""

import io
import os
import struct
import subprocess
import sys
import zipfile
from contextlib import suppress

import numpy as np
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


class Called:
    """Pickled as a call."""

    def __init__(self, function, argument):
        self.call = function, (argument,)

    def __reduce__(self):
        return self.call


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
    "a text for a choice that is open": lambda c: c["groups"][0].update(fused=""),
    "betas of three": lambda c: c["groups"][0].update(betas=(0.1, 0.2, 0.3)),
    "a scheduler's method": lambda c: c["scheduler"].update(step=3),
    "a scheduler's count a text": lambda c: c["scheduler"].update(last_epoch="x"),
    "scheduler a list": lambda c: c.update(scheduler=[1]),
    "average lacks one": lambda c: c["average"].pop("a"),
    "average a number": lambda c: c.update(average=4),
    "num_averaged no number": lambda c: c.update(num_averaged=float("nan")),
    "num_averaged longer than a counter": lambda c: c.update(num_averaged=2**70),
    "num_averaged a tensor": lambda c: c.update(num_averaged=torch.ones(3)),
    "num_batches below zero": lambda c: c.update(num_batches=-5),
    "num_batches a text": lambda c: c.update(num_batches="5"),
    "extra a list": lambda c: c.update(extra=[1]),
    "a version that is a tensor": lambda c: c.update(version=torch.ones(2)),
    "a rate longer than any float": lambda c: c["groups"][0].update(lr=10**400),
    "weights that are complex": lambda c: c["model"].update(a=c["model"]["a"].to(torch.complex128)),
    "moments in another precision": lambda c: c["optimizer"]["a"].update(exp_avg=torch.zeros(2, 2).half()),
    "moments that are lacking": lambda c: c["optimizer"]["a"].pop("exp_avg_sq"),
    "a scheduler of no steps": lambda c: c["scheduler"].update(step_size=0),
    "bytes by their number": lambda c: c["extra"].update(a=Called(bytearray, 2**33)),
    "a tensor by its size": lambda c: c["extra"].update(a=Called(torch.FloatTensor, 2**31)),
    "a call": lambda c: c["extra"].update(a=Called(os.mkdir, "executed")),
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
        assert not os.path.exists("executed")
        assert same(trainer.state_dict(), before)
        assert trainer.num_batches == 2
        load_checkpoint(trainer, tmp_path / "good.pt")
        assert trainer.num_batches == 1


IN_PLACE_OF_LISTS = {
    "a tensor for a piece": lambda shard: shard["pieces"].update(a=MANY),
    "a tensor for a shape": lambda shard: shard["pieces"]["a"].__setitem__(1, MANY),
}
MANY = torch.zeros(1).expand(2**40)  # a few bytes in a file


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", IN_PLACE_OF_LISTS)
def test_a_shard_with_a_tensor_in_place_of_a_list(what, tmp_path):
    """It was taken apart into its numbers: five gigabytes and more for a file of four thousand bytes."""
    with adam_trainer() as trainer:
        trainer.step(X, Y).item()
        save_checkpoint(trainer, tmp_path / "c", sharded=True)
        path = next((tmp_path / "c").glob("part-0-*"))
        shard = torch.load(path, weights_only=True)
        IN_PLACE_OF_LISTS[what](shard)
        torch.save(shard, path)
        with pytest.raises(FileError, match="is not a list of"):
            load_checkpoint(trainer, tmp_path / "c")


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


def broken_archives(content):
    """Yield ways in which a file of torch.save is not what it says."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    name = next(name for name in entries if name.endswith("data/0"))
    yield "cut", content[: len(content) // 2]
    flipped = bytearray(content)
    flipped[content.index(entries[name])] ^= 1
    yield "a bit flipped", bytes(flipped)
    yield "a storage too short", zipped(entries | {name: entries[name][:-1]})
    yield "a storage too long", zipped(entries | {name: entries[name] + b"x"})
    two_sizes = bytearray(zipped(entries))
    struct.pack_into("<I", two_sizes, two_sizes.rindex(name.encode()) - 46 + 20, 2**32 - 1)
    yield "an entry of two sizes", bytes(two_sizes)
    yield "compressed", zipped(entries | {name: bytes(10**8)}, zipfile.ZIP_DEFLATED)


def zipped(entries, method=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


@pytest.mark.parametrize("sharded", [False, True])
def test_an_archive_that_is_not_what_it_says(tmp_path, sharded):
    """Shards, which are mapped, were taken with flipped bits, and with storages that reached into the next one.

    A file whose directory gave an entry two sizes was taken here, and by torch.load in the next program not.
    """
    with adam_trainer() as trainer:
        trainer.step(X, Y).item()
        save_checkpoint(trainer, tmp_path / "c", sharded=sharded)
        path = next((tmp_path / "c").glob("part-0-*")) if sharded else tmp_path / "c"
        believed = []
        for what, content in list(broken_archives(path.read_bytes())):
            path.write_bytes(content)
            with suppress(FileError):
                load_checkpoint(trainer, tmp_path / "c")
                believed.append(what)
        assert not believed


def test_what_could_not_be_read_again_is_not_saved(tmp_path):
    """A checkpoint was written with whatever `extra` had, and refused when it was needed."""
    with adam_trainer() as trainer:
        save_checkpoint(trainer, tmp_path / "c.pt", {"a": 1})
        for extra in ({"a": np.float64(1)}, {"a": [0.5] * 2**21}):
            with pytest.raises(FileError, match="not to be saved"):
                save_checkpoint(trainer, tmp_path / "c.pt", extra)
        assert load_checkpoint(trainer, tmp_path / "c.pt") == {"a": 1}
