"""Which segments of a program run forward again for their backward pass, and how that is written: `0:1,1:0`."""

import re
from collections.abc import Iterable
from dataclasses import replace

from hyperplace.errors import UsageError
from hyperplace.values.program import PartProgram, Program

NONE, ALL, AUTO = "none", "all", "auto"
_PAIR = re.compile(r"(\d{1,6}):(\d{1,6})", re.ASCII)

Chosen = tuple[tuple[int, int], ...]  # parts and segments


def recomputed(program: Program) -> Chosen:
    """Return the parts and segments that a program recomputes."""
    return tuple((p, s) for p, s in _all(program) if program.parts[p].segments[s].recomputes)


def recomputing(program: Program, chosen: Iterable[tuple[int, int]]) -> Program:
    """Return the program that recomputes these segments and no others."""
    wanted = set(chosen)
    if unknown := wanted - set(_all(program)):
        part, segment = min(unknown)
        raise UsageError(f"there is no segment {segment} of part {part} to recompute; see hyperplace generate")
    return replace(program, parts=tuple(_marked(p, part, wanted) for p, part in enumerate(program.parts)))


def _all(program: Program) -> Chosen:
    return tuple((p, s) for p, part in enumerate(program.parts) for s in range(len(part.segments)))


def _marked(number: int, part: PartProgram, wanted: set[tuple[int, int]]) -> PartProgram:
    segments = [replace(one, recomputes=(number, s) in wanted) for s, one in enumerate(part.segments)]
    return replace(part, segments=tuple(segments))


def recomputing_as(program: Program, text: str) -> Program:
    """Return the program that recomputes what a text says: none, all, or parts and segments such as 0:1,1:0."""
    return recomputing(program, {NONE: (), ALL: _all(program)}[text] if text in (NONE, ALL) else parsed_chosen(text))


def parsed_chosen(text: str) -> Chosen:
    """Return the parts and segments of a text such as 0:1,1:0."""
    found = [_PAIR.fullmatch(word.strip()) for word in text.split(",")]
    pairs = tuple((int(one[1]), int(one[2])) for one in found if one)
    if len(pairs) < len(found):
        raise UsageError(f"recompute {text!r} is neither {NONE} nor {ALL} nor parts and segments such as 0:1,1:0")
    return pairs


def chosen_text(chosen: Chosen) -> str:
    """Return parts and segments as they are read again."""
    return ",".join(f"{part}:{segment}" for part, segment in chosen) or NONE
