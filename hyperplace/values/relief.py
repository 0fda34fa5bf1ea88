"""What segments do to need less memory between their passes, and how that is written: `0:1,1:0`.

One that recomputes keeps only what it takes and what later segments take, and runs forward once more before it runs
backward. One that offloads keeps as little on its device, and all else in the host's memory meanwhile.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from hyperplace.errors import UsageError
from hyperplace.values.program import PartProgram, Piece, Program, Segment

NONE, ALL, AUTO = "none", "all", "auto"
RECOMPUTE, OFFLOAD = "recompute", "offload"
_PAIR = re.compile(r"(\d{1,6}):(\d{1,6})", re.ASCII)

Chosen = tuple[tuple[int, int], ...]  # parts and segments


def recomputed(program: Program) -> Chosen:
    """Return the parts and segments that a program recomputes."""
    return tuple((p, s) for p, s in _all(program) if program.parts[p].segments[s].recomputes)


def offloaded(program: Program) -> Chosen:
    """Return the parts and segments that a program offloads."""
    return tuple((p, s) for p, s in _all(program) if program.parts[p].segments[s].offloads)


def recomputing(program: Program, chosen: Iterable[tuple[int, int]]) -> Program:
    """Return the program that recomputes these segments and no others."""
    wanted = _known(program, chosen, RECOMPUTE)
    return _with_segments(program, lambda one, place: replace(one, recomputes=place in wanted))


def offloading(program: Program, chosen: Iterable[tuple[int, int]]) -> Program:
    """Return the program that offloads these segments and no others."""
    wanted = _known(program, chosen, OFFLOAD)
    return _with_segments(program, lambda one, place: replace(one, offloads=place in wanted))


def _known(program: Program, chosen: Iterable[tuple[int, int]], way: str) -> set[tuple[int, int]]:
    wanted = set(chosen)
    if unknown := wanted - set(_all(program)):
        part, segment = min(unknown)
        raise UsageError(f"there is no segment {segment} of part {part} to {way}; see hyperplace generate")
    return wanted


def _with_segments(program: Program, changed: Callable[[Segment, tuple[int, int]], Segment]) -> Program:
    """Return the program with every segment as it is changed, going by its part and number."""
    parts = [
        replace(part, segments=tuple(changed(one, (p, s)) for s, one in enumerate(part.segments)))
        for p, part in enumerate(program.parts)
    ]
    return replace(program, parts=tuple(parts))


def _all(program: Program) -> Chosen:
    return tuple((p, s) for p, part in enumerate(program.parts) for s in range(len(part.segments)))


def relieved(program: Program, recompute: str = NONE, offload: str = NONE) -> Program:
    """Return the program that does what two texts say: none, all, or parts and segments such as 0:1,1:0."""
    chosen = {way: _chosen(program, text, way) for way, text in ((RECOMPUTE, recompute), (OFFLOAD, offload))}
    if both := set(chosen[RECOMPUTE]) & set(chosen[OFFLOAD]):
        part, segment = min(both)
        raise UsageError(
            f"segment {segment} of part {part} is to recompute and to offload; leave it out of one of them"
        )
    return offloading(recomputing(program, chosen[RECOMPUTE]), chosen[OFFLOAD])


def _chosen(program: Program, text: str, way: str) -> Chosen:
    return {NONE: (), ALL: _all(program)}[text] if text in (NONE, ALL) else parsed_chosen(text, way)


def parsed_chosen(text: str, way: str) -> Chosen:
    """Return the parts and segments of a text such as 0:1,1:0."""
    found = [_PAIR.fullmatch(word.strip()) for word in text.split(",")]
    pairs = tuple((int(one[1]), int(one[2])) for one in found if one)
    if len(pairs) < len(found):
        raise UsageError(f"{way} {text!r} is neither {NONE} nor {ALL} nor parts and segments such as 0:1,1:0")
    return pairs


def check_chosen(text: str, way: str) -> None:
    """Refuse a text that is neither none nor all nor parts and segments."""
    if text not in (NONE, ALL):
        parsed_chosen(text, way)


def chosen_text(chosen: Chosen) -> str:
    """Return parts and segments as they are read again."""
    return ",".join(f"{part}:{segment}" for part, segment in chosen) or NONE


def spared_bytes(part: PartProgram, segment: int, share: float = 1.0) -> float:
    """Return what a part need not hold for a segment that recomputes or offloads, for a share of a mini-batch."""
    one = part.segments[segment]
    return (one.saved_bytes - one.kept_bytes) * share + sum(joined_bytes(part, segment))


def joined_bytes(part: PartProgram, segment: int) -> list[int]:
    """Return the bytes of every parameter that a segment puts together from pieces of several owners."""
    pieces: dict[str, list[Piece]] = {}
    for attribute in part.weights_of(segment):
        pieces.setdefault(part.weights[attribute].name, []).append(part.weights[attribute])
    return [sum(piece.num_bytes for piece in some) for some in pieces.values() if len(some) > 1]
