"""One rank of a long run in which hosts are lost and replaced; it tells what it holds as lines of JSON.

The program that starts the ranks, kills some and starts spares is tests/sweeps/soak.py.
"""

import gc
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
import fault_rank
import scenes

import hyperplace
from hyperplace.errors import HyperplaceError, NotNeeded
from hyperplace.runtime.hosts.joining import joined
from hyperplace.runtime.survival import door

NUM_TESTED = 512
NOISE = 2.5


def rows(number, count=8):
    """Return images of ten classes, each a pattern in noise: something to learn."""
    patterns = torch.randn(10, 3, 8, 8, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(number)
    classes = torch.randint(10, (count,), generator=generator)
    return patterns[classes] + NOISE * torch.randn(count, 3, 8, 8, generator=generator), classes


def trainer_of(case, **words):
    grain, partitioner = case["plan"].split(":")
    return scenes.made(k=words.pop("k", case["k"]), grain=grain, partitioner=partitioner, **words)


def train(case, trainer, path, first, last, at_checkpoint=lambda number: None):
    for number in range(first, last):
        trainer.step(*rows(number))
        if (number + 1) % case["save_every"] == 0:
            hyperplace.save_checkpoint(trainer, path, {"next": number + 1})
            at_checkpoint(number + 1)


def accuracy(trainer):
    x, y = rows(-1 % 2**31, NUM_TESTED)
    return float((trainer.predict(x).argmax(1) == y).float().mean())


def held():
    """Return what this process has of memory, descriptors and threads."""
    gc.collect()
    return scenes._held()


def run(case, name, spare, tell):
    knock = door.Guest.invitation

    def invitation(guest):
        tell(waits=True)
        return knock(guest)

    door.Guest.invitation = invitation
    words = {"survive": case["k"] - 1, "survive_every": case["survive_every"], "door": case["door"], "spare": spare}
    with joined(), trainer_of(case, **words) as trainer:
        trainer.on_change = lambda change: tell(change=str(change), num_batches=change.num_batches)
        tell(ready=True, begins=trainer.brought.get("next", 0))

        def at_checkpoint(number):
            trainer.take_in({"next": number})
            tell(at=number, size=trainer.world.size, first=trainer.world.number == 0, **held())
            if number % case["loss_every"] == 0 and number < case["steps"]:  # until a spare has come, and one may go
                while not (Path(case["folder"]) / f"go-{number}").exists():
                    time.sleep(0.01)

        train(
            case, trainer, Path(case["folder"]) / "now.pt", trainer.brought.get("next", 0), case["steps"], at_checkpoint
        )
        right, state = accuracy(trainer), trainer.state_dict()
        tell(accuracy=right, digest=fault_rank.digest(state) if state else "", num=trainer.num_batches)


def expected(case, events):
    """Return the digest of a run restarted by hand at each event: (mini-batch, parts from there on)."""
    folder, parts, first = Path(case["folder"]), case["k"], 0
    for number, more in [*events, (case["steps"], 0)]:
        with trainer_of(case, k=parts) as trainer:
            if first:
                hyperplace.load_checkpoint(trainer, folder / "by-hand.pt")
            train(case, trainer, folder / "other.pt", first, number)
            if not more:
                return fault_rank.digest(trainer.state_dict()), accuracy(trainer)
            hyperplace.save_checkpoint(trainer, folder / "by-hand.pt")
        first, parts = number, more
    raise AssertionError


def main(case, name, spare):
    torch.set_num_threads(1)
    path = Path(case["folder"]) / f"{name}.jsonl"

    def tell(**words):
        with path.open("a") as file:
            file.write(json.dumps({"name": name, "s": round(time.time(), 2), "pid": os.getpid(), **words}) + "\n")

    try:
        run(case, name, spare, tell)
    except NotNeeded:
        return 0
    except HyperplaceError as fault:
        tell(error=f"{type(fault).__name__}: {fault}")
        return 1
    return 0


if __name__ == "__main__":
    assert not dist.is_initialized()
    sys.exit(main(json.loads(sys.argv[1]), *sys.argv[2:4]))
