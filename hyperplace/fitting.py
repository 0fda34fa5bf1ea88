"""Fit a program into the memory of its devices: Program + Schedule + limits -> what of it is recomputed."""

from collections.abc import Callable, Sequence

from hyperplace.values.program import Program
from hyperplace.values.recompute import recomputing
from hyperplace.values.schedule import Schedule

Needed = Callable[[Program], Sequence[int]]  # the bytes of every part
Limits = Sequence[int | None]  # of every part; None: no limit


def fitted(program: Program, order: Schedule, limits: Limits, needed: Needed) -> Program:
    """Return the program with as few recomputed segments as its parts need to fit; with all that help, where none do.

    Those that save most bytes for the work of running them again come first. Recomputing a segment never takes more
    memory at any moment, so what does not fit with all of them fits with none.
    """
    if all(limit is None for limit in limits):
        return program
    waiting = {p: _by_worth(program, order, p) for p in _over(needed(program), limits)}
    chosen: list[tuple[int, int]] = []
    now = program
    while more := [(p, waiting[p].pop(0)) for p in _over(needed(now), limits) if waiting.get(p)]:
        chosen += more
        now = recomputing(program, chosen)
    if _over(needed(now), limits):
        return now
    return _without_spare(program, chosen, limits, needed)


def _without_spare(program: Program, chosen: Sequence[tuple[int, int]], limits: Limits, needed: Needed) -> Program:
    """Return the program without what need not be recomputed after all, the longest segments first."""
    kept = set(chosen)
    for one in sorted(chosen, key=lambda pair: -program.parts[pair[0]].segments[pair[1]].forward):
        if not _over(needed(recomputing(program, kept - {one})), limits):
            kept -= {one}
    return recomputing(program, kept)


def _over(needed: Sequence[int], limits: Limits) -> list[int]:
    """Return the parts that need more than they have."""
    return [
        p for p, (size, limit) in enumerate(zip(needed, limits, strict=False)) if limit is not None and size > limit
    ]


def _by_worth(program: Program, order: Schedule, part: int) -> list[int]:
    """Return the segments of a part that keep something, those first that keep most for their work."""
    segments, lives = program.parts[part].segments, order.lives(part)

    def worth(s: int) -> float:
        return (segments[s].saved_bytes - segments[s].kept_bytes) * lives[s] / max(segments[s].forward, 1e-9)

    return sorted((s for s in range(len(segments)) if worth(s) > 0), key=worth, reverse=True)
