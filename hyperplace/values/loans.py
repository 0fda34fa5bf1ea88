"""Which part holds copies of whose weights, and by which way their gradients and new values go.

A loan goes straight to and from its owner, or by a relay: a part that has the same copy, straight from the owner, adds
the gradients of others to its own, and hands new values on to them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hyperplace.errors import UsageError
from hyperplace.values.program import Copy, PartProgram, Piece, Program
from hyperplace.values.ranges import Range, Ranges

Owned = dict[str, dict[str, Piece]]  # by name and attribute


@dataclass(frozen=True)
class Loan:
    """A slice of one part's weight of which another part has a copy."""

    owner: int
    borrower: int
    lent: str  # the owner's attribute
    copy: str  # the borrower's attribute; names the messages
    spans: tuple[Ranges, ...]  # within the owner's piece
    via: int | None = None  # the relay
    relayed: str = ""  # its attribute
    is_relay: bool = False  # of others, whose loans name the borrower of this one as theirs

    @property
    def peer(self) -> int:
        """The part that the borrower sends gradients to and gets new values from."""
        return self.owner if self.via is None else self.via


def loans_of(program: Program) -> tuple[Loan, ...]:
    """Return what the parts of a program lend each other; found once, as thousands of copies take their time."""
    found: tuple[Loan, ...] = vars(program).get("_loans") or find_loans(program.parts)
    vars(program)["_loans"] = found  # as a cached property would; loans know the program, not it them
    return found


def find_loans(parts: Sequence[PartProgram]) -> tuple[Loan, ...]:
    """Return what parts lend each other; a part that runs nothing borrows nothing."""
    owned = [_by_name(part) for part in parts]
    copies = [
        (borrower, attribute, piece)
        for borrower, part in enumerate(parts)
        if part.segments
        for attribute, piece in part.weights.items()
        if isinstance(piece, Copy)
    ]
    direct = {(borrower, _what(piece)): attribute for borrower, attribute, piece in copies if piece.via is None}
    found = [_routed(_loan(owned, borrower, attribute, piece), piece, direct) for borrower, attribute, piece in copies]
    relayed = {(loan.via, loan.relayed) for loan in found}
    return tuple(replace(one, is_relay=True) if (one.borrower, one.copy) in relayed else one for one in found)


def _what(copy: Copy) -> tuple[str, tuple[Ranges, ...], int]:
    """Return what two copies have in common that are the same."""
    return copy.name, copy.spans, copy.owner


def _routed(loan: Loan, copy: Copy, direct: Mapping[tuple[int, tuple[str, tuple[Ranges, ...], int]], str]) -> Loan:
    """Return a loan with its relay, if it has one; `direct` has the copies that may be relays."""
    if copy.via is None:
        return loan
    relayed = direct.get((copy.via, _what(copy)))
    if relayed is None:
        raise UsageError(
            f"part {loan.borrower} has a copy of {copy.name}{_index(copy)} via part {copy.via}, which has not the same "
            f"straight from part {copy.owner}; generate the program again"
        )
    return replace(loan, via=copy.via, relayed=relayed)


def _index(copy: Copy) -> str:
    return f"[{copy.index}]" if copy.index else ""


def _by_name(part: PartProgram) -> Owned:
    """Return the weights that a part owns, by their name in the model; a part has many, of which few have one name."""
    found: Owned = {}
    for attribute, piece in part.owned.items():
        found.setdefault(piece.name, {})[attribute] = piece
    return found


def _loan(owned: Sequence[Owned], borrower: int, attribute: str, copy: Copy) -> Loan:
    """Find the one piece of the owner that holds what is copied."""
    is_part = copy.owner in range(len(owned)) and copy.owner != borrower
    pieces = owned[copy.owner].get(copy.name, {}) if is_part else {}
    found = [
        Loan(copy.owner, borrower, lent, attribute, spans)
        for lent, piece in pieces.items()
        if (spans := _within(copy, piece)) is not None
    ]
    if len(found) != 1:
        raise UsageError(
            f"part {borrower} has a copy of {copy.name}{_index(copy)}, but part {copy.owner} owns {len(found) or 'no'} "
            "pieces with all of it instead of one; generate the program again"
        )
    return found[0]


def _within(copy: Piece, piece: Piece) -> tuple[Ranges, ...] | None:
    """Return where a copy lies within a piece; None if not all of it is there."""
    if copy.shape != piece.shape:
        return None
    found = [_ranges_within(inner, outer) for inner, outer in zip(copy.spans, piece.spans, strict=True)]
    spans = tuple(ranges for ranges in found if ranges is not None)
    return spans if len(spans) == len(found) else None


def located(ranges: Ranges) -> list[tuple[Range, int]]:
    """Return every range with the place where it begins among its neighbours."""
    found, offset = [], 0
    for start, stop in ranges:
        found.append(((start, stop), offset))
        offset += stop - start
    return found


def _ranges_within(inner: Ranges, outer: Ranges) -> Ranges | None:
    """Return ranges counted by place among the elements of the outer ones."""
    if len(outer) == 1:  # nearly always, and replicas on many devices are many
        low, high = outer[0]
        is_in = all(low <= start and stop <= high for start, stop in inner if start < stop)
        return tuple((start - low, stop - low) for start, stop in inner if start < stop) if is_in else None
    found: list[Range] = []
    for start, stop in inner:
        while start < stop:
            match = next(((low, high, at) for (low, high), at in located(outer) if low <= start < high), None)
            if match is None:
                return None
            low, high, at = match
            found.append((at + start - low, at + min(stop, high) - low))
            start = min(stop, high)
    return tuple(found)


def borrowers(loans: Iterable[Loan]) -> dict[int, set[int]]:
    """Return for every part that lends something to whom."""
    found: dict[int, set[int]] = {}
    for loan in loans:
        found.setdefault(loan.owner, set()).add(loan.borrower)
    return found


def relays(loans: Iterable[Loan]) -> dict[int, set[int]]:
    """Return for every part that relays something whose gradients it adds to its own."""
    found: dict[int, set[int]] = {}
    for loan in loans:
        if loan.via is not None:
            found.setdefault(loan.via, set()).add(loan.borrower)
    return found


def updaters(parts: Sequence[PartProgram], loans: Iterable[Loan]) -> dict[int, set[int]]:
    """Return for every part that has weights of its own to whom it lends, be it to nobody."""
    lenders = borrowers(loans)
    owners = [p for p, part in enumerate(parts) if any(not isinstance(w, Copy) for w in part.weights.values())]
    return {part: lenders.get(part, set()) for part in owners}


def users_of(parts: Sequence[PartProgram], loans: Sequence[Loan]) -> dict[tuple[int, str], set[tuple[int, int]]]:
    """Return for every weight that is lent, by its owner and attribute, the parts and segments that use it."""
    users: dict[tuple[int, str], set[tuple[int, int]]] = {}
    for loan in loans:
        known = users.setdefault((loan.owner, loan.lent), _users(parts, loan.owner, loan.lent))
        known |= _users(parts, loan.borrower, loan.copy)
    return users


def _users(parts: Sequence[PartProgram], number: int, attribute: str) -> set[tuple[int, int]]:
    return {(number, segment) for segment in parts[number].users[attribute]}
