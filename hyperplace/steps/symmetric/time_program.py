"""The least time of a mini-batch on hosts with cards, as a mixed-integer program: Load + Room -> TimeBound.

Every placement of cells (a filter's row) is a solution of it, so its optimum, and the solver's bound on that, are lower
bounds on the time of all of them. Devices of one host are taken together, for they talk without a card; what two of
them receive of the same bytes counts once.

The filters of a run are of two kinds. Whole ones have all their rows on one host: a[r, h] is the share of the run that
they make on host h, and w[r, h] = 1 where there are any: that host needs all rows of what the run reads. Shared ones,
b[r] of the run, have rows on several hosts: s[r, h] is their share of cells on h, and every one of them has a copy of
its weights on one more host at least. With f = a + s for the share of all cells, host h receives of run l

    received[l, h] >= w[c, h] - f[l, h]  and  f[c, h] - f[l, h]     of every run c that reads all of l
                      f[c, h] - f[l, h]                             of every run c that reads it channel by channel

and sends back as much where gradients go back. Work <= time x speed and bytes <= time x rate for every host, and its
devices have memory for the weights, their gradients and what the optimizer keeps. Weights may be updated by another
host than has their cells; gradients and new weights of a copy cross from host to host once, whoever adds them up.

Left out, so that the bound is low there: that hosts wait for each other, that a filter shared by three hosts has two
copies, and that few rows of shared filters are many filters. For VGG16 on two hosts the first is all that matters.
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.steps.symmetric.milp import Program, Solver
from hyperplace.values.arrays import Floats
from hyperplace.values.modes import HybridRuns
from hyperplace.values.prediction import IN, OUT, WAYS
from hyperplace.values.time_bound import TimeBound

TIGHT = 0.999  # of what there is: then it binds
SAFE = 1 - 1e-6  # what the solver's tolerances may add
GAP = 1e-3
MEMORY, WORK = "the memory of", "the work of"
ALL_WORK = f"{WORK} all devices"
MOST_NAMES = 2


@dataclass(frozen=True, eq=False)
class Load:
    """What there is to place, for every run: work, and bytes."""

    hybrid: HybridRuns
    passes: Floats  # forward and backward
    updates: Floats
    forward_bytes: Floats  # of the output
    back_bytes: Floats  # of its gradient; 0 where it has none
    weight_bytes: Floats  # that are trained, and of no other run


@dataclass(frozen=True)
class Room:
    """What a host has."""

    name: str
    speed: float  # of all its devices: work in a second
    out_rate: float
    in_rate: float
    memory_bytes: float  # of all its devices; infinite where one has no limit


@dataclass(frozen=True)
class _Shares:
    """The columns of one run: one per host, but for `shared`."""

    whole: list[int]
    has_whole: list[int]
    rows: list[int]  # of shared filters
    owned: list[int]  # weights that are updated there
    received: list[int]
    sent: list[int]
    copied: list[int]  # to or from there, of its weights
    shared: int

    def cells(self, host: int, times: float = 1.0) -> dict[int, float]:
        return {self.whole[host]: times, self.rows[host]: times}


class TimeProgram:
    """One program, ready to be solved; time is in units of what all work takes on all devices."""

    def __init__(self, load: Load, rooms: list[Room], states: int) -> None:
        self._load, self._rooms, self._states = load, rooms, states
        self._unit_s = float((load.passes + load.updates).sum()) / sum(room.speed for room in rooms)
        self._program = Program()
        self._time = self._program.column(1.0, np.inf, lower=1.0)
        self._runs = [self._add_run(run) for run in range(len(load.passes))]
        for run in range(len(load.passes)):
            self._add_traffic(run)
        self._named = dict[str, int]()
        for host, room in enumerate(rooms):
            self._add_host(host, room)

    def solve(self, time_limit_s: float) -> TimeBound:
        """Return what is proven when the time is up; never less than all work on all devices."""
        answer = Solver(self._program, gap=GAP).solve(time_limit_s=time_limit_s)
        least = max(1.0, answer.bound * SAFE) if np.isfinite(answer.bound) else 1.0
        binds = self._binding(answer.values) if least > 1 / TIGHT and answer.values is not None else ALL_WORK
        return TimeBound(least * self._unit_s, binds)

    def _add_run(self, run: int) -> _Shares:
        """Add the shares of a run: everything is somewhere, and shared filters are copied."""
        program, hosts, hybrid = self._program, range(len(self._rooms)), self._load.hybrid
        solid = bool(hybrid.runs.is_solid[run])
        most = 1.0 if hybrid.splits_rows[run] else 0.0
        has_whole = [program.column(is_integer=True) for _ in hosts]
        shares = _Shares(
            whole=has_whole if solid else [program.column() for _ in hosts],
            has_whole=has_whole,
            rows=[program.column(upper=most) for _ in hosts],
            owned=[program.column() for _ in hosts],
            received=[program.column() for _ in hosts],
            sent=[program.column(upper=float(len(hosts))) for _ in hosts],
            copied=[program.column(upper=2.0 * len(hosts)) for _ in hosts],
            shared=program.column(upper=most, is_integer=solid),
        )
        program.row(dict.fromkeys(shares.whole, 1.0) | {shares.shared: 1.0}, low=1.0, high=1.0)
        program.row(dict.fromkeys(shares.rows, 1.0) | {shares.shared: -1.0}, low=0.0, high=0.0)
        program.row(dict.fromkeys(shares.owned, 1.0), low=1.0, high=1.0)
        for host in hosts if not solid else ():
            program.row({shares.whole[host]: 1.0, shares.has_whole[host]: -1.0}, high=0.0)
        # A copy's gradient and its new weights pass its own host's card and another's.
        program.row(dict.fromkeys(shares.copied, 1.0) | {shares.shared: -2.0}, low=0.0)
        return shares

    def _add_traffic(self, run: int) -> None:
        """Add what every host receives of a run, and that somebody who has some of it sends it."""
        program, own, links = self._program, self._runs[run], self._load.hybrid.runs
        hosts = range(len(self._rooms))
        for host in hosts:
            missing = {own.received[host]: 1.0} | own.cells(host)
            for reader in links.readers[run]:
                program.row(missing | {self._runs[reader].has_whole[host]: -1.0}, low=0.0)
            for reader in {*links.readers[run], *links.tied[run]}:
                program.row(missing | self._runs[reader].cells(host, -1.0), low=0.0)
            program.row({own.sent[host]: 1.0} | own.cells(host, 1.0 - len(hosts)), high=0.0)
        program.row(dict.fromkeys(own.received, 1.0) | dict.fromkeys(own.sent, -1.0), low=0.0, high=0.0)

    def _add_host(self, host: int, room: Room) -> None:
        """Add what a host cannot do in less time: its work, and what its card carries; and what it has room for."""
        load, runs, unit = self._load, self._runs, self._unit_s
        work: dict[int, float] = {}
        held: dict[int, float] = {}
        ways: dict[str, dict[int, float]] = {OUT: {}, IN: {}}
        for run, own in enumerate(runs):
            work |= own.cells(host, load.passes[run] / room.speed / unit)
            work |= {own.owned[host]: load.updates[run] / room.speed / unit}
            held |= own.cells(host, 2 * load.weight_bytes[run])
            held |= {own.owned[host]: self._states * load.weight_bytes[run]}
            there, back = load.forward_bytes[run] / unit, load.back_bytes[run] / unit
            copied = {own.copied[host]: load.weight_bytes[run] / unit}
            ways[IN] |= {own.received[host]: there, own.sent[host]: back} | copied
            ways[OUT] |= {own.sent[host]: there, own.received[host]: back} | copied
        self._at_most_time(f"{WORK} {room.name}", work)
        for way, rate in ((OUT, room.out_rate), (IN, room.in_rate)):
            if np.isfinite(rate):
                carried = {column: num_bytes / rate for column, num_bytes in ways[way].items()}
                self._at_most_time(f"{room.name}'s card, {WAYS[way]}", carried)
        if np.isfinite(room.memory_bytes):
            terms = {column: num_bytes / room.memory_bytes for column, num_bytes in held.items() if num_bytes}
            self._named[f"{MEMORY} {room.name}"] = self._program.row(terms, high=1.0)

    def _at_most_time(self, name: str, terms: dict[int, float]) -> None:
        used = {column: amount for column, amount in terms.items() if amount}
        self._named[name] = self._program.row(used | {self._time: -1.0}, high=0.0)

    def _binding(self, values: Floats) -> str:
        """Name what is used up in the best solution, memory first and work last, which others make uneven."""
        full = [name for name, row in self._named.items() if self._used(row, values) >= TIGHT]
        full.sort(key=lambda name: (not name.startswith(MEMORY), name.startswith(WORK)))
        return " and ".join(full[:MOST_NAMES]) or ALL_WORK

    def _used(self, row: int, values: Floats) -> float:
        """Return how much of its limit a row uses."""
        program = self._program
        own = range(program.starts[row], program.starts[row + 1])
        terms = {program.indices[place]: program.coefficients[place] for place in own}
        limit = values[self._time] if self._time in terms else 1.0
        return float(sum(values[column] * amount for column, amount in terms.items() if column != self._time) / limit)
