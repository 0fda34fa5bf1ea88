"""What parts do for a mini-batch, as a graph: actions, what each must wait for, and the bytes that go between them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hyperplace.values.loans import Loan, borrowers, loans_of, updaters
from hyperplace.values.program import Keep, Program, Receive, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, UPDATE

LEAST_SHARE = 1e-6  # of all work, for segments that only pass something on: starts must differ

Node = tuple[int, str, int]  # part, kind, segment
Needs = dict[Node, set[Node]]  # what every action of a mini-batch must wait for


@dataclass(frozen=True)
class Parcel:
    """Bytes that one part's action sends and actions of another part wait for.

    `left` is how much of the maker's work is still to be done when it goes, as a share. Who takes new weights is of a
    later mini-batch.
    """

    maker: Node
    takers: tuple[Node, ...]
    num_bytes: int
    left: float = 0.0
    weight: tuple[int, str] | None = None  # that the bytes are a new version of: its owner and attribute


def durations(
    program: Program, nodes: Collection[Node], *, share: float = 1.0, recomputes: bool = True
) -> dict[Node, float]:
    """Return the work of every action; updates without one of their own come after the last backward pass.

    `share`: of the rows of a mini-batch, for micro-batches. `recomputes`: with what is run forward again first.
    """
    work: dict[Node, float] = {}
    updates = {node[0] for node in nodes if node[1] == UPDATE}
    least = max(1.0, LEAST_SHARE * program.total_work)
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            late = part.update if s == 0 and p not in updates else 0.0
            again = segment.forward if recomputes and segment.recomputes else 0.0
            work[p, FORWARD, s] = max(segment.forward * share, least)
            work[p, BACKWARD, s] = max((again + segment.backward) * share + late, least)
        work |= {node: max(part.update, least) for node in nodes if node[:2] == (p, UPDATE)}
        work |= {node: least for node in nodes if node[:2] == (p, NORM)}
    return work


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
        for s, segment in enumerate(part.segments):
            for take in segment.takes:
                if isinstance(take, Keep):
                    _connect(needs, maker[p, take.name], (p, FORWARD, s))
                elif isinstance(take, Receive):
                    _connect(needs, maker[take.message], (p, FORWARD, s))
                    lead = part.first_takers[take.message]
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
    loans = loans_of(program)
    lenders = updaters(program.parts, loans) if clips else borrowers(loans)
    for p, others in lenders.items():
        backward = {(q, BACKWARD, s) for q in (p, *others) for s in range(len(program.parts[q].segments))}
        needs[p, NORM if clips else UPDATE, 0] = backward
        if clips:
            needs[p, UPDATE, 0] = {(q, NORM, 0) for q in lenders}


def parcels_of(
    program: Program, *, clips: bool = False, lends: bool = True, gives_early: bool = True, share: float = 1.0
) -> list[Parcel]:
    """Return all that is sent for a mini-batch, or for the `share` of its rows that a micro-batch is.

    `lends`: with the gradients and new values of copies. They go during the backward pass if they are given early, that
    is unless micro-batches add them up first.
    """
    found = list(_messages(program, max(1, round(program.batch * share))))
    for loan in loans_of(program) if lends else ():
        found += _lent(program, loan, clips=clips, gives_early=gives_early)
    return found


def _messages(program: Program, rows: int) -> Iterator[Parcel]:
    senders = {
        give.message: (p, s)
        for p, part in enumerate(program.parts)
        for s, segment in enumerate(part.segments)
        for give in segment.gives
        if isinstance(give, Send)
    }
    for message in program.messages:
        target, (source, sender) = message.target, senders[message.number]
        segments = program.parts[target].segments
        takers = [s for s, segment in enumerate(segments) if Receive(message.number) in segment.takes]
        num_bytes = message.num_bytes(rows, program.batch)
        yield Parcel((source, FORWARD, sender), tuple((target, FORWARD, s) for s in takers), num_bytes)
        if message.learns:
            yield Parcel((target, BACKWARD, takers[0]), ((source, BACKWARD, sender),), num_bytes)


def _lent(program: Program, loan: Loan, *, clips: bool, gives_early: bool) -> Iterator[Parcel]:
    """Yield a copy's gradient and its new value."""
    part = program.parts[loan.borrower]
    users = [s for s in range(len(part.segments)) if loan.copy in part.weights_of(s)]
    num_bytes, owner = part.weights[loan.copy].num_bytes, (loan.owner, UPDATE, 0)
    if not users:
        return
    names = part.weights_of(users[0])
    # Layers run backward from the last to the first, and are taken to be equally long.
    left = names.index(loan.copy) / len(names) if gives_early else 0.0
    taker = (loan.owner, NORM, 0) if clips else owner
    yield Parcel((loan.borrower, BACKWARD, users[0]), (taker,), num_bytes, left)
    takers = tuple((loan.borrower, FORWARD, s) for s in users)
    yield Parcel(owner, takers, num_bytes, weight=(loan.owner, loan.lent))
