"""A core for every host, or where hosts are more than cores an equal share of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

PERIOD_US = 10_000  # short against a mini-batch, so that a share is like a slower core and not a core with breaks
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Seat:
    """The core of one host, and the group that limits its share of it; None where it has the whole core, or cannot."""

    core: int | None  # None where processes cannot be kept on a core
    share: float = 1.0
    group: Path | None = None

    def take(self, pid: int) -> None:
        """Let a process, with all threads it will start, run here and nowhere else."""
        if self.core is not None:
            os.sched_setaffinity(pid, [self.core])
        if self.group:
            (self.group / "cgroup.procs").write_text(str(pid))


@contextmanager
def seats(number: int) -> Iterator[tuple[Seat, ...]]:
    """Hand out as many seats, on the cores that this process may use; groups are removed at the end of the block."""
    if not hasattr(os, "sched_setaffinity"):  # not a thing outside Linux
        yield (Seat(None),) * number
        return
    _remove_stale()
    cores = sorted(os.sched_getaffinity(0))
    per_core = ceil(number / len(cores))
    made: list[Path] = []
    try:
        if per_core > 1:
            made = [group for index in range(number) if (group := _limited(index, 1 / per_core))]
        groups: list[Path | None] = [*made] if len(made) == number else [None] * number
        yield tuple(Seat(cores[index % len(cores)], 1 / per_core, group) for index, group in enumerate(groups))
    finally:
        for group in made:
            with suppress(OSError):  # a process that was killed may not be gone yet
                group.rmdir()


def _remove_stale() -> None:
    """Remove the groups of processes that are gone."""
    for group in (*GROUPS.glob("hyperplace-*-*"), *GROUPS.glob("cpu/hyperplace-*-*")):
        if not Path("/proc", group.name.split("-")[1]).exists():
            with suppress(OSError):
                group.rmdir()


def _limited(index: int, share: float) -> Path | None:
    """Return a new control group that gets this share of a core, or None where there can be none."""
    name, quota_us = f"hyperplace-{os.getpid()}-{index}", round(share * PERIOD_US)
    # Version 2 has one tree for all that is controlled, version 1 one for the processor.
    for group, limits in (
        (GROUPS / name, {"cpu.max": f"{quota_us} {PERIOD_US}"}),
        (GROUPS / "cpu" / name, {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}),
    ):
        with suppress(OSError):
            group.mkdir()
            if all((group / file).exists() for file in limits):
                for file, text in limits.items():
                    (group / file).write_text(text)
                return group
            group.rmdir()
    return None


def seats_line(seats: tuple[Seat, ...]) -> str:
    """Say in words what every host has of a core."""
    first = seats[0]
    if first.core is None:
        return "not kept on cores of their own"
    if first.share == 1:
        return "a core each"
    if first.group:
        return f"{first.share:.3g} of a core each"
    return f"{round(1 / first.share)} on a core together, which is not limited to a share each"
