"""One rank of a run in which another, or it itself, meets a fault at some mini-batch; it tells what it saw as JSON.

The program that starts the ranks is tests/sweeps/faults.py.
"""

import hashlib
import json
import os
import random
import resource
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import scenes

import hyperplace
from hyperplace.errors import HyperplaceError
from hyperplace.runtime.hosts.joining import joined

PAUSE_S = 2.0
ROOM_BYTES = 8192
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def told(case, folder, rank, **words):
    """Add a line to what this rank says."""
    with (Path(folder) / f"rank-{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"rank": rank, "at": time.time(), **words}) + "\n")


def trainer_of(case, **words):
    """Return a trainer of the case's plan."""
    grain, partitioner = case["plan"].split(":")
    words = {"schedule": case["schedule"], "in_flight": case["in_flight"], **words}
    return scenes.made(k=words.pop("k", case["k"]), grain=grain, partitioner=partitioner, **words)


def train(case, trainer, path, first, last, meets=lambda number: None):
    """Train mini-batches in their order, with calls in between in which all wait for all."""
    for number in range(first, last):
        meets(number)
        trainer.step(*scenes.rows(number))
        if number % case["asks"] == case["asks"] - 1:
            trainer.predict(scenes.rows(number)[0])
            hyperplace.save_checkpoint(trainer, path)


def digest(state):
    """Return a word for all bits of a state dict."""
    text = b"".join(name.encode() + tensor.numpy().tobytes() for name, tensor in sorted(state.items()))
    return hashlib.sha256(text).hexdigest()


class Failing(torch.optim.SGD):
    """Fails once it is told to."""

    is_armed = False

    def step(self, closure=None):
        if Failing.is_armed:
            raise ValueError("no more")
        return super().step(closure)


def meet(case, folder, rank):
    """Let the fault come, some time after the mini-batch at which it is due."""
    time.sleep(random.Random(case["seed"]).uniform(0, case["later_s"]))
    told(case, folder, rank, fault=case["kind"])
    if case["kind"] == "pause":
        os.system(f"(sleep {PAUSE_S}; kill -CONT {os.getpid()}) & kill -STOP {os.getpid()}")
    if case["kind"] in SIGNALS:
        os.kill(os.getpid(), SIGNALS[case["kind"]])
    if case["kind"] == "disk":  # as full as this process can make it; Python ignores the signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, resource.RLIM_INFINITY))
    Failing.is_armed = case["kind"] == "exception"


def run(case, folder, rank):
    """Train, meet the fault if it is this rank's, and tell the end."""

    def meets(number):
        if number == case["batch"] and rank == case["rank"]:
            threading.Thread(target=meet, args=(case, folder, rank), daemon=True).start()

    def optimizer(parameters):
        return Failing(parameters, lr=0.05, momentum=0.9)

    words = {"survive": case["survive"], "survive_every": case["every"]} if case["survive"] else {}
    with joined():
        meets(-1)
        with trainer_of(case, optimizer=optimizer, **words) as trainer:
            _train(case, folder, rank, trainer, meets)


def _train(case, folder, rank, trainer, meets):
    told(case, folder, rank, ready=True)
    if case["survive"]:
        trainer.on_change = lambda change: told(
            case, folder, rank, change=str(change), cut=change.num_batches, again=change.num_again
        )
    train(case, trainer, Path(folder) / "now.pt", 0, case["steps"], meets)
    state = trainer.state_dict()
    slow = trainer.world.heart.slow()
    told(case, folder, rank, digest=digest(state) if state else "", slow=slow, num=trainer.num_batches)


def main(case, folder, rank):
    torch.set_num_threads(1)
    try:
        run(case, folder, rank)
    except HyperplaceError as fault:
        told(case, folder, rank, error=str(fault))
        return 1
    except BaseException:
        traceback.print_exc()
        return 3
    return 0


def expected(case, cut, num_left):
    """Return the digest of a run that is restarted by hand from the update, on the plan for those who are left."""
    folder = Path(case["folder"])
    with trainer_of(case) as trainer:
        train(case, trainer, folder / "other.pt", 0, cut)
        hyperplace.save_checkpoint(trainer, folder / "by-hand.pt")
    with trainer_of(case, k=num_left) as trainer:
        hyperplace.load_checkpoint(trainer, folder / "by-hand.pt")
        train(case, trainer, folder / "other.pt", cut, case["steps"])
        return digest(trainer.state_dict())
