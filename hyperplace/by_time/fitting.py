"""Fit a program into its devices' memory: Program + Schedule + limits -> what of it is recomputed or offloaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hyperplace.values.program import Program
from hyperplace.values.relief import OFFLOAD, RECOMPUTE, offloading, recomputing, spared_bytes
from hyperplace.values.schedule import Schedule

Needed = Callable[[Program], Sequence[int]]  # the bytes of every part
Limits = Sequence[int | None]  # of every part; None: no limit
Prices = Callable[[int, int], Mapping[str, float]]  # what each way that there is takes for a segment of a part
Relief = tuple[str, int, int]  # a way, a part, a segment


def fitted(program: Program, order: Schedule, limits: Limits, needed: Needed, prices: Prices) -> Program:
    """Return the program with as few segments that recompute or offload as its parts need to fit; with all that help,
    where none do.

    Those that spare most bytes for the time that takes come first, each the cheaper way. Neither ever takes more memory
    at any moment, so what does not fit with all of them fits with none.
    """
    if all(limit is None for limit in limits):
        return program
    waiting = {p: _by_worth(program, order, p, prices) for p in _over(needed(program), limits)}
    chosen: list[Relief] = []
    now = program
    while more := [waiting[p].pop(0) for p in _over(needed(now), limits) if waiting.get(p)]:
        chosen += more
        now = _relieved(program, chosen)
    if _over(needed(now), limits):
        return now
    return _without_spare(program, chosen, limits, needed, prices)


def _without_spare(
    program: Program, chosen: Sequence[Relief], limits: Limits, needed: Needed, prices: Prices
) -> Program:
    """Return the program without what it need not do after all, what takes longest first."""
    kept = set(chosen)
    for one in sorted(chosen, key=lambda some: -prices(*some[1:])[some[0]]):
        if not _over(needed(_relieved(program, kept - {one})), limits):
            kept -= {one}
    return _relieved(program, kept)


def _relieved(program: Program, chosen: Iterable[Relief]) -> Program:
    some = {way: {(p, s) for how, p, s in chosen if how == way} for way in (RECOMPUTE, OFFLOAD)}
    return offloading(recomputing(program, some[RECOMPUTE]), some[OFFLOAD])


def _over(needed: Sequence[int], limits: Limits) -> list[int]:
    """Return the parts that need more than they have."""
    return [
        p for p, (size, limit) in enumerate(zip(needed, limits, strict=False)) if limit is not None and size > limit
    ]


def _by_worth(program: Program, order: Schedule, part: int, prices: Prices) -> list[Relief]:
    """Return the segments of a part that keep something, those first that keep most for what it takes not to."""
    lives = order.lives(part)
    found: list[tuple[float, Relief]] = []
    for s in range(len(program.parts[part].segments)):
        spared, ways = spared_bytes(program.parts[part], s) * lives[s], prices(part, s)
        if spared > 0 and ways:
            way = min(ways, key=ways.__getitem__)
            found.append((spared / max(ways[way], 1e-12), (way, part, s)))
    return [relief for _, relief in sorted(found, key=lambda pair: -pair[0])]
