"""How mini-batches flow through the parts, and where these may run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.values.arguments import count_faults
from hyperplace.values.cluster import Cluster

SCHEDULES = ("async", "sync")


@dataclass(frozen=True)
class RunSettings:
    """How mini-batches flow.

    async: up to `in_flight` mini-batches under way, each part updates right after its own backward pass, or, if others
    have copies of its weights, after theirs. sync: every mini-batch is cut into `micro_batches`, of which up to
    `in_flight` are under way, then one update.
    """

    schedule: str = "async"
    in_flight: int = 4
    micro_batches: int = 1
    seed: int = 0
    devices: tuple[str, ...] = ()  # one per part; all on the CPU by default
    threads: int | None = None  # intra-op threads of every part; the cores shared out by default
    check_nan: bool = False
    record: bool = False  # keep a timeline
    cluster: Cluster | None = None  # whose network the order of actions makes allowance for
    survive: int = 0  # hosts that may be lost, one after the other
    survive_every: int = 20  # updates between copies for the case that one is

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if self.schedule not in SCHEDULES:
            yield f"schedule {self.schedule!r} is unknown; choose one of {', '.join(SCHEDULES)}"
        yield from count_faults("in_flight", self.in_flight)
        yield from count_faults("micro_batches", self.micro_batches)
        yield from count_faults("seed", self.seed, least=0)
        yield from count_faults("survive", self.survive, least=0)
        yield from count_faults("survive_every", self.survive_every)
        if self.threads is not None:
            yield from count_faults("threads", self.threads)
        if self.schedule == "async" and self.micro_batches != 1:
            yield "micro_batches are for the sync schedule; async overlaps whole mini-batches"
        for device in self.devices:
            yield from device_faults("devices:", device)


def device_faults(argument: str, name: Any) -> Iterator[str]:
    """Say why nothing can run on a device; `argument` is where the user named it."""
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        yield f"{argument} {name} is no device; give cpu or cuda:0, or several such as cuda:0,cuda:1"
        return
    if device.type not in ("cpu", "cuda"):
        yield f"{argument} {name} is not supported; give cpu or cuda:0"
    elif device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        yield f"{argument} {name} is not here: this machine has {torch.cuda.device_count()} GPUs"
