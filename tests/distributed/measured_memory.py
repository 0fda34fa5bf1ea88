"""Run under torchrun: train plans, a process per part, and say what each held at its peak beside what was predicted.

`tensors` are the bytes of all tensors that the part's process made while it trained and not yet forgot, seen operation
by operation, with the weights it began with; `resident` is the growth of the resident set over what it was before the
trainer was made, as Linux counts it: also code, what oneDNN works in, and what gloo holds.

    MALLOC_MMAP_THRESHOLD_=65536 torchrun --nproc-per-node 2 tests/distributed/measured_memory.py \
        PLAN.json MODEL SIDE SCHEDULE IN_FLIGHT MICRO_BATCHES RECOMPUTE [STEPS]
"""

import gc
import json
import sys
import threading
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import hyperplace
from hyperplace.api import load_plan
from hyperplace.models import load_model
from hyperplace.values.cluster import Cluster, Device, Host


class Held:
    """The bytes of tensors that are in use, and the most there have been."""

    def __init__(self):
        self._size_of, self._lock = {}, threading.RLock()
        self.now = self.most = 0

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        with self._lock:
            if key in self._size_of:
                return
            self._size_of[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
        weakref.finalize(storage, self._forget, key)

    def _forget(self, key):
        with self._lock:
            self.now -= self._size_of.pop(key)


class Watch(TorchDispatchMode):
    """Note every tensor that an operation of this thread makes."""

    def __init__(self, held):
        super().__init__()
        self._held = held

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                self._held.add(value)
        return result


def watched(rank, held):
    """Let a rank's thread note what it makes."""
    follow = rank._follow

    def noted(command):
        with Watch(held):
            follow(command)

    rank._follow = noted
    for tensor in rank.weights.now().values():
        held.add(tensor.detach())


def chain(side, num_layers=12, width=24):
    """Return convolutions of equal size, whose activations are most of what they need."""
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(num_layers - 1):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * side * side // 4, 64))


def made(name, side):
    torch.manual_seed(0)
    return chain(side) if name == "chain" else load_model(name, [(3, side, side)], device="cpu").module


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.001, momentum=0.9)


def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))


def main(path, name, side, schedule, in_flight, micro_batches, recompute, steps=8):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    plan, net = load_plan(path), made(name, int(side))
    x = torch.randn(plan.settings.batch, 3, int(side), int(side))
    y = torch.randint(10, (plan.settings.batch,))
    pieces = int(micro_batches) if schedule == "sync" else None
    words = {"schedule": schedule, "in_flight": int(in_flight), "micro_batches": pieces, "recompute": recompute}
    cluster = Cluster(tuple(Host(f"h{n}", (Device(flops_per_s=1e10),)) for n in range(plan.settings.k)))
    hyperplace.generate(net, plan)  # what is made once and kept: modules, tables
    net(x[:2]).sum().backward()
    net.zero_grad(set_to_none=True)
    gc.collect()
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak so far
    with hyperplace.compile(
        net, plan, optimizer=momentum, loss=F.cross_entropy, threads=1, cluster=cluster, **words
    ) as trainer:
        held = Held()
        held.add(x)
        held.add(y)
        given = held.now
        watched(trainer.ranks[0], held)
        with Watch(held):
            losses = [trainer.step(x, y) for _ in range(int(steps))]
            trainer.flush()
        parts = hyperplace.memory(
            trainer.program,
            trainer.schedule,
            optimizer="momentum",
            in_flight=int(in_flight),
            micro_batches=pieces,
            cluster=cluster,
        )
        part = dist.get_rank()
        found = {"part": part, "tensors": held.most - given, "resident": status("VmHWM") - before}
        found |= {"predicted": parts[part].total}
        print(json.dumps(found | vars(parts[part]) | {"losses": [loss.item() for loss in losses]}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
