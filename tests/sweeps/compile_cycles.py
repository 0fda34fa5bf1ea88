"""Compile, step and close again and again, and see that memory stays flat: by hand, for it takes some minutes.

    python tests/sweeps/compile_cycles.py [cycles]

Prints the resident memory as it goes; exit code 1 where it grows by more than 5 MiB after the first tenth, in which
torch fills its own caches, or where a thread is left. Every second trainer is not closed but forgotten.
"""

import gc
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

import hyperplace

LIMIT_MIB = 5.0


def main(num_cycles):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 4))
    x, y = torch.randn(4, 3, 6, 6), torch.randint(4, (4,))
    plan = hyperplace.place(net, x, k=2, imbalance=1.0, batch=4, partitioner="horizontal")
    early = 0.0
    for cycle in range(num_cycles):
        run_once(net, plan, x, y, is_closed=cycle % 2 == 0)
        if (cycle + 1) % max(1, num_cycles // 10) == 0:
            gc.collect()
            now = resident_mib()
            early = early or now
            print(f"{cycle + 1} cycles: {now:.1f} MiB, {threading.active_count()} threads", flush=True)
    time.sleep(1.0)
    sys.exit(now - early > LIMIT_MIB or threading.active_count() > 1)


def run_once(net, plan, x, y, *, is_closed):
    trainer = hyperplace.compile(net, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=F.cross_entropy)
    trainer.step(x, y)
    if is_closed:
        trainer.close()


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
