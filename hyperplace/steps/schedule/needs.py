"""What every action of a mini-batch must wait for."""

from hyperplace.values.loans import borrowers, find_loans, updaters
from hyperplace.values.program import Keep, Program, Receive, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, UPDATE

Node = tuple[int, str, int]  # part, kind, segment
Needs = dict[Node, set[Node]]


def needs_of(program: Program, *, is_sync: bool = False, clips: bool = False) -> Needs:
    """Return for every action of a mini-batch the actions that must come before it."""
    needs: Needs = {}
    maker: dict[tuple[int, str] | int, Node] = {}  # who makes what a part keeps, and every message
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            needs[p, FORWARD, s] = set()
            needs[p, BACKWARD, s] = {(p, FORWARD, s)}
            for give in segment.gives:
                if isinstance(give, Keep | Send):
                    maker[(p, give.name) if isinstance(give, Keep) else give.message] = (p, FORWARD, s)
    for p, part in enumerate(program.parts):
        first: dict[int, int] = {}  # the segment that sends a received tensor's gradient back
        for s, segment in enumerate(part.segments):
            for take in segment.takes:
                if isinstance(take, Keep):
                    _connect(needs, maker[p, take.name], (p, FORWARD, s))
                elif isinstance(take, Receive):
                    _connect(needs, maker[take.message], (p, FORWARD, s))
                    lead = first.setdefault(take.message, s)
                    if lead != s:
                        needs[p, BACKWARD, lead].add((p, BACKWARD, s))
    if not is_sync:
        _add_updates(needs, program, clips=clips)
    return needs


def _connect(needs: Needs, maker: Node, taker: Node) -> None:
    """Let a segment run forward after the one that makes what it takes, and backward before it."""
    needs[taker].add(maker)
    needs[maker[0], BACKWARD, maker[2]].add((taker[0], BACKWARD, taker[2]))


def _add_updates(needs: Needs, program: Program, *, clips: bool) -> None:
    """Let parts that lend update once all gradients are there; with clipping, all parts once all norms are told."""
    loans = find_loans(program.parts)
    lenders = updaters(program.parts, loans) if clips else borrowers(loans)
    for p, others in lenders.items():
        backward = {(q, BACKWARD, s) for q in (p, *others) for s in range(len(program.parts[q].segments))}
        needs[p, NORM if clips else UPDATE, 0] = backward
        if clips:
            needs[p, UPDATE, 0] = {(q, NORM, 0) for q in lenders}
