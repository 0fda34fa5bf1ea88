"""Run under torchrun: train zoo models by plans in these processes and on threads, and compare bit for bit.

Each case trains some steps of different rows both ways, predicts, and asks for the state and the bytes. What is
recomputed in processes is kept on threads. The first process prints a line of JSON per case.

With `hosts` the first half of the parts is taken to be on one host and the others on another, so that weights with
copies go by relays.

    torchrun --nproc-per-node 2 tests/distributed/equal_ranks.py STEPS \\
        MODEL:GRAIN:PARTITIONER:SCHEDULE[:clip][:all][:hosts] ...
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "steps" / "lower"))

from program_cases import planned

from hyperplace.compiling import runnable
from hyperplace.models import ZOO, load_model
from hyperplace.runtime import RunSettings, Trainer, Training
from hyperplace.runtime.hosts.meeting import met_world
from hyperplace.steps.capture import capture

ROWS = 6


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.002, momentum=0.9)


def batches(name, steps):
    """Yield mini-batches, every third of other rows than planned."""
    shape, side = ZOO[name].input_shape[0], 32
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        rows = ROWS - 2 if step % 3 == 2 else ROWS
        yield torch.randn(rows, shape, side, side, generator=generator), torch.randint(10, (rows,), generator=generator)


def run(trainer, name, steps):
    """Return all that must be the same whatever carries the messages."""
    with trainer:
        losses = [trainer.step(x, y) for x, y in batches(name, steps)]
        trainer.flush()
        values = [loss.item() for loss in losses]
        outputs = trainer.predict(next(iter(batches(name, 1)))[0])
        losses = [trainer.step(x, y) for x, y in batches(name, 2)]
        state = trainer.state_dict()
        values += [loss.item() for loss in losses]
        moved, unplanned = trainer.moved_bytes(), trainer.moved_bytes(planned=False)
    return values, outputs, state, moved, sum(unplanned.values())


def differences(one, other):
    """Name what differs; weights are known to the first process only."""
    found = []
    if one[0] != other[0]:
        found.append(f"losses {one[0]} {other[0]}")
    outputs = [x if isinstance(x, tuple) else (x,) for x in (one[1], other[1])]
    if not all(torch.equal(x, y) for x, y in zip(*outputs, strict=True)):
        found.append("outputs")
    if one[2] and not all(torch.equal(one[2][name], other[2][name]) for name in other[2]):
        found.append("state " + " ".join(n for n in other[2] if not torch.equal(one[2][n], other[2][n])))
    if one[3] != other[3]:
        found.append(f"bytes {one[3]} {other[3]}")
    return found


def main(steps, cases, parts_each):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    k = dist.get_world_size() * parts_each
    graphs = {}
    for case in cases:
        name, grain, how, schedule, *more = case.split(":")
        torch.manual_seed(0)
        net = load_model(name, [(ZOO[name].input_shape[0], 32, 32)], device="cpu").module
        graph = graphs[name] = graphs.get(name) or capture(net, torch.randn(ROWS, ZOO[name].input_shape[0], 32, 32))
        hosts = tuple(2 * part // k for part in range(k)) if "hosts" in more else ()
        plan = planned(graph, grain, k, how, blocks=4, row_blocks=k, hosts=hosts)
        assert any(one.via is not None for one in plan.replicas) == ("hosts" in more)
        settings = RunSettings(schedule, 3, 2 if schedule == "sync" and not graph.coupling else 1, threads=1)
        training = Training(momentum, clip_norm=0.5 if "clip" in more else None)
        kept, state = runnable(graph, plan), net.state_dict()
        made = runnable(graph, plan, recompute="all") if "all" in more else kept
        world = met_world(made.program, state, settings, training, parts_each)
        words = {"training": training, "loss": F.cross_entropy, "settings": settings}
        found = run(Trainer(made, state, world=world, **words), name, steps)
        expected = run(Trainer(kept, state, **words), name, steps) if world.number == 0 else found
        if world.number == 0:
            wrong = differences(found, expected)
            print(
                json.dumps({"case": case, "k": k, "wrong": wrong, "messages": len(made.program.messages)}), flush=True
            )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:], int(os.environ.get("PARTS_EACH", "1")))
