"""By which connection a message goes: what is waited for at once may not wait behind gradients and weights."""

import torch
from torch import nn

import hyperplace
from hyperplace import api
from hyperplace.runtime.commands import Batch, Tick
from hyperplace.runtime.transport import FORWARD, GRADIENTS, Key
from hyperplace.runtime.transport.distributed import Network
from hyperplace.values.program import Copy

ROWS = 4


class Group:
    """Stands for connections to the other process; whatever is begun on them is done."""

    def __init__(self):
        self.received, self.sent = [], []

    def recv(self, tensors, source, tag):
        self.received.append(tensors[0].numel())
        return self

    def send(self, tensors, target, tag):
        self.sent.append(tensors[0].numel())
        return self

    def wait(self, *limit):
        return True


class First:
    """The first of two processes with a part each."""

    number, size, parts = 0, 2, (0,)

    def __init__(self):
        self.group, self.bulk = Group(), Group()

    def home(self, part):
        return part

    def end(self, limit_s):
        pass


def test_gradients_and_weights_go_by_connections_of_their_own():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    sample = torch.zeros(ROWS, 3, 4, 4)
    plan = hyperplace.place(model, sample, k=2, grain="hybrid", partitioner="dataparallel", batch=ROWS)
    program, processes = api.lower(model, plan), First()
    network = Network(program, processes, clips=False, updates_at_once=True)
    try:
        network.announce(Tick(0, Batch(0, (sample,))))
        copies = [copy for part in program.parts for copy in part.weights.values() if isinstance(copy, Copy)]
        assert sorted(processes.bulk.received) == sorted(one.num_bytes for one in copies)
        assert processes.group.received, "the statistics of the batch norm"
        message = next(one for one in program.messages if one.source == 0)
        network.send(Key(0, FORWARD, message.number, 0, 1), torch.zeros(message.sizes(ROWS, ROWS)))
        name, copy = next((n, w) for n, w in program.parts[0].weights.items() if isinstance(w, Copy))
        network.send(Key(0, GRADIENTS, name, 0, 1), torch.zeros(copy.sizes))
        assert processes.group.sent == [4 * torch.zeros(message.sizes(ROWS, ROWS)).numel()]
        assert processes.bulk.sent == [copy.num_bytes]
    finally:
        network.clear()
