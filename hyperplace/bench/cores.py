"""A core for every host, or the share that was asked for, or an equal share where hosts are more than cores."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from hyperplace.errors import UsageError

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
def seats(number: int, shares: Sequence[float] = ()) -> Iterator[tuple[Seat, ...]]:
    """Hand out as many seats, on the cores that this process may use; groups are removed at the end of the block."""
    if not hasattr(os, "sched_setaffinity"):  # not a thing outside Linux
        yield (Seat(None),) * number
        return
    _remove_stale()
    cores = sorted(os.sched_getaffinity(0))
    wanted = tuple(shares) or (1 / ceil(number / len(cores)),) * number
    _check_room(wanted, len(cores))
    made: list[Path] = []
    try:
        made = [group for index, share in enumerate(wanted) if share < 1 and (group := _limited(index, share))]
        if shares and len(made) < sum(share < 1 for share in wanted):
            raise UsageError("--shares needs control groups, which this process may not make; run it as root")
        groups = iter(made if len(made) == sum(share < 1 for share in wanted) else [])
        yield tuple(
            Seat(cores[index % len(cores)], share, next(groups, None) if share < 1 else None)
            for index, share in enumerate(wanted)
        )
    finally:
        for group in made:
            with suppress(OSError):  # a process that was killed may not be gone yet
                group.rmdir()


def _check_room(shares: Sequence[float], num_cores: int) -> None:
    """Refuse shares of which a core would have to give more than it has."""
    for core in range(num_cores):
        if (total := sum(shares[core::num_cores])) > 1 + 1e-9:
            raise UsageError(
                f"--shares ask for {total:g} of core {core}, for hosts take turns on {num_cores} cores; give less"
            )


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
    if len({seat.share for seat in seats}) > 1:
        return f"{', '.join(f'{seat.share:.3g}' for seat in seats)} of a core"
    if first.share == 1:
        return "a core each"
    if first.group:
        return f"{first.share:.3g} of a core each"
    return f"{round(1 / first.share)} on a core together, which is not limited to a share each"
