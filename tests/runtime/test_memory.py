"""The memory of a run is what program and schedule predict, and does not grow with the number of mini-batches."""

import subprocess
import sys

import pytest

SCRIPT = """
import gc, sys, torch
from torch import nn
import hyperplace

grain, partitioner, optimizer, in_flight, steps = sys.argv[1:4] + [int(word) for word in sys.argv[4:]]
make = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.001),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.001),
}[optimizer]

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

torch.manual_seed(0)
side = 64 if steps < 100 else 8
layers = [nn.Conv2d(3, 24, 3, padding=1), nn.ReLU()]
for _ in range(11):
    layers += [nn.Conv2d(24, 24, 3, padding=1), nn.ReLU()]
net = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24 * side * side // 4, 64))
x, y = torch.randn(32, 3, side, side), torch.randint(10, (32,))
settings = dict(grain=grain, partitioner=partitioner, costs="flops")
plan = hyperplace.place(net, x, k=2, imbalance=0.5, batch=32, **settings)
hyperplace.generate(net, plan)  # what is made once and kept: modules, tables
net(x[:1]).sum().backward()
net.zero_grad(set_to_none=True)
gc.collect()
before = status("VmRSS")
trainer = hyperplace.compile(net, plan, optimizer=make, loss=nn.functional.cross_entropy, in_flight=in_flight)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
with trainer:
    for step in range(steps):
        trainer.step(x, y)
        if step == steps // 5:
            trainer.flush()
            early = status("VmRSS")
    trainer.flush()
    peak, grown = status("VmHWM") - before, status("VmRSS") - early  # before a simulation loads its compiler
    parts = hyperplace.memory(trainer.program, trainer.schedule, optimizer=optimizer)
    most = max(hyperplace.dry_run(trainer.program, trainer.schedule).live)
    print(peak, sum(part.total for part in parts), grown, most)
"""
CASES = {
    "one in flight": ("coarse", "layerwise", "sgd", 1, 5),
    "several in flight": ("coarse", "layerwise", "sgd", 4, 7),
    "with optimizer state": ("coarse", "layerwise", "adam", 4, 7),
    "with copies": ("hybrid", "dataparallel", "sgd", 4, 7),
}


def measured(*case):
    """Return the peak, the prediction, the growth over the last steps, and the most mini-batches a part holds."""
    # A fixed threshold, so that freed tensors go back to the system and the peak is what is in use.
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SCRIPT, *map(str, case)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True, env=environment).stdout
    return tuple(map(int, out.split()))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; run it on Linux")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_peak_is_as_predicted(case):
    """Where it is more, another run decides: the working memory in use beside it depends on when the threads meet."""
    peak, predicted, _, live = measured(*case)
    if peak > 1.15 * predicted:
        peak = measured(*case)[0]
    assert peak == pytest.approx(predicted, rel=0.15)
    assert live > 1 or case[0] == "hybrid" or case[3] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; run it on Linux")
def test_five_hundred_steps_need_no_more_memory_than_a_hundred():
    _, predicted, growth, _ = measured("coarse", "layerwise", "sgd", 4, 500)
    assert growth < max(0.2 * predicted, 4 * 2**20)
