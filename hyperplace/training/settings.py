"""What to learn and how: the data and the steps, which a resumed run must keep, and the flow, which it may change."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.values.cluster import Cluster
from hyperplace.values.relief import NONE, OFFLOAD, RECOMPUTE, check_chosen

DATA = ("fashion-mnist", "synthetic")


@dataclass(frozen=True)
class TrainSettings:
    """The data, and SGD's steps through it; `num_images` None means all of the data set."""

    data: str = "fashion-mnist"
    data_folder: Path | None = None
    num_images: int | None = None
    epochs: int = 5
    batch: int = 64
    lr: float = 0.05
    momentum: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if self.data not in DATA:
            yield f"data {self.data!r} is unknown; choose one of {', '.join(DATA)}"
        if self.data == "synthetic" and self.data_folder:
            yield "--data-folder is for data from files, and synthetic images have none; leave it out"
        for option, value in (("epochs", self.epochs), ("batch", self.batch), ("images", self.num_images)):
            if value is not None and value < 1:
                yield f"--{option} {value} is less than 1"
        if not (math.isfinite(self.lr) and self.lr > 0):
            yield f"--lr {self.lr} is not a learning rate; give more than 0, such as 0.05"
        if not 0 <= self.momentum < 1:
            yield f"--momentum {self.momentum} is not within 0..1; give 0.9, or 0 for none"
        if self.seed < 0:
            yield f"seed {self.seed} is negative; give --seed 0 or more"

    @property
    def kept(self) -> dict[str, Any]:
        """What a run that goes on from a checkpoint must have in common with the one that made it, by option."""
        names = ("data", "batch", "lr", "momentum", "seed")
        return {name: getattr(self, name) for name in names} | {"images": self.num_images}


@dataclass(frozen=True)
class Flow:
    """How mini-batches flow through the parts, as hyperplace.compile takes it; one device is for all parts."""

    schedule: str = "async"
    in_flight: int = 4
    micro_batches: int | None = None
    stash: bool = True
    recompute: str = NONE
    offload: str = NONE
    threads: int | None = None
    devices: tuple[str, ...] = ()
    check_nan: bool = False
    parts_per_process: int = 1  # under torchrun
    cluster: Cluster | None = None  # whose network it makes allowance for
    record: bool = False  # keep a timeline
    survive: int = 0  # hosts that may be lost, one after the other
    survive_every: int = 20  # updates between copies for that case
    door: int | None = None  # the port at which spares and hosts that come back wait
    spare: str = ""  # the doors of a run to wait at

    def __post_init__(self) -> None:
        from hyperplace.runtime import RunSettings, device_faults

        # The runtime's own checks, before a plan is searched for rather than after.
        RunSettings(
            self.schedule,
            self.in_flight,
            self.micro_batches or 1,
            survive=self.survive,
            survive_every=self.survive_every,
        )
        check_chosen(self.recompute, RECOMPUTE)
        check_chosen(self.offload, OFFLOAD)
        if self.micro_batches is not None and self.micro_batches < 1:
            raise UsageError(f"--micro-batches {self.micro_batches} is less than 1")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"--threads {self.threads} is less than 1")
        if faults := [fault for device in self.devices for fault in device_faults("--device", device)]:
            raise UsageError("; ".join(faults))

    def threads_for(self, num_parts: int) -> int:
        """Return the intra-op threads of every part: the cores shared out, unless told otherwise."""
        return self.threads or max(1, (os.cpu_count() or 1) // num_parts)

    def devices_for(self, num_parts: int) -> tuple[str, ...]:
        """Return a device per part."""
        devices = self.devices or ("cpu",)
        if len(devices) not in (1, num_parts):
            raise UsageError(f"--device names {len(devices)} devices for {num_parts} parts; give one, or one for each")
        return devices if len(devices) == num_parts else devices * num_parts
