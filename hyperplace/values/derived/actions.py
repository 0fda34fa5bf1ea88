"""What parts do for a mini-batch, as a graph: actions, what each must wait for, and the bytes that go between them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from hyperplace.values.loans import Loan, borrowers, loans_of, relays, updaters
from hyperplace.values.profile import cost_of_rows
from hyperplace.values.program import Keep, PartProgram, Program, Receive, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, PASS, RELAY, UPDATE

LEAST_SHARE = 1e-6  # of all work, for segments that only pass something on: starts must differ

Node = tuple[int, str, int]  # part, kind, segment
Needs = dict[Node, set[Node]]  # what every action of a mini-batch must wait for


@dataclass(frozen=True)
class Parcel:
    """Bytes that one part's action sends and actions of another part wait for; or of its own, which has them at once.

    `left` is how much of the maker's work is still to be done when it goes, as a share. Who takes new weights is of a
    later mini-batch, and may have done a share of its work, `into`, before the layer that needs them.
    """

    maker: Node
    takers: tuple[Node, ...]
    num_bytes: int
    left: float = 0.0
    into: tuple[float, ...] = ()  # of every taker, where it is not 0
    weight: tuple[int, str] | None = None  # that the bytes are a new version of: its owner and attribute

    @property
    def is_bulk(self) -> bool:
        """Whether these are gradients or weights of copies, which go by connections of their own."""
        return self.weight is not None or self.takers[0][1] in (UPDATE, NORM, RELAY, PASS)


def durations(
    program: Program, nodes: Collection[Node], *, share: float = 1.0, recomputes: bool = True
) -> dict[Node, float]:
    """Return the work of every action; updates without one of their own come after the last backward pass.

    `share`: of the rows of a mini-batch, for micro-batches. `recomputes`: with what is run forward again first.
    """
    work: dict[Node, float] = {}
    updates = {node[0] for node in nodes if node[1] == UPDATE}
    least = least_work(program)
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            late = part.update if s == 0 and p not in updates else 0.0
            again = segment.forward if recomputes and segment.recomputes else 0.0
            cost = cost_of_rows(segment.half_rows, share)
            work[p, FORWARD, s] = max(segment.forward * cost, least)
            work[p, BACKWARD, s] = max((again + segment.backward) * cost + late, least)
        work |= {node: max(part.update, least) for node in nodes if node[:2] == (p, UPDATE)}
        work |= {node: least for node in nodes if node[0] == p and node[1] in (NORM, RELAY, PASS)}
    return work


def least_work(program: Program) -> float:
    """Return what any action takes at least."""
    return max(1.0, LEAST_SHARE * program.total_work)


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


def closing_of(program: Program) -> list[Node]:
    """Return what parts do once in the synchronous schedule, after all micro-batches, in the order in which each does.

    Relays add gradients up before the updates, and pass new weights on after them.
    """
    relaying = relays(loans_of(program))
    updates = [(p, UPDATE, 0) for p, part in enumerate(program.parts) if part.owned]
    return [*((p, RELAY, 0) for p in relaying), *updates, *((p, PASS, 0) for p in relaying)]


def _connect(needs: Needs, maker: Node, taker: Node) -> None:
    """Let a segment run forward after the one that makes what it takes, and backward before it."""
    needs[taker].add(maker)
    needs[maker[0], BACKWARD, maker[2]].add((taker[0], BACKWARD, taker[2]))


def _add_updates(needs: Needs, program: Program, *, clips: bool) -> None:
    """Let parts that lend update once all gradients are there; with clipping, all parts once all norms are told.

    Relays add gradients up before, and pass new weights on after. They too update in an action of their own, between
    the two: where all parts write together, whoever did so sooner or later would wait for those that wait for it.
    """
    loans = loans_of(program)
    lenders = updaters(program.parts, loans) if clips else borrowers(loans)
    for p, others in lenders.items():
        needs[p, NORM if clips else UPDATE, 0] = _backwards(program, (p, *others))
        if clips:
            needs[p, UPDATE, 0] = {(q, NORM, 0) for q in lenders}
    for p, others in relays(loans).items():
        needs[p, RELAY, 0] = _backwards(program, (p, *others))
        needs.setdefault((p, UPDATE, 0), _backwards(program, (p,))).add((p, RELAY, 0))
        needs[p, PASS, 0] = {(p, UPDATE, 0)}
    for loan in loans:
        if loan.is_relay:
            needs[loan.owner, NORM if clips else UPDATE, 0].add((loan.borrower, RELAY, 0))
            needs[loan.borrower, PASS, 0].add((loan.owner, UPDATE, 0))


def _backwards(program: Program, parts: Iterable[int]) -> set[Node]:
    return {(q, BACKWARD, s) for q in parts for s in range(len(program.parts[q].segments))}


def publisher_of(loan: Loan) -> Node:
    """Return the action after which a borrower has new values, or has them sent to it."""
    relay = loan.borrower if loan.is_relay else loan.via
    return (loan.owner, UPDATE, 0) if relay is None else (relay, PASS, 0)


def parcels_of(
    program: Program, *, clips: bool = False, lends: bool = True, gives_early: bool = True, share: float = 1.0
) -> list[Parcel]:
    """Return all that is sent for a mini-batch, or for the `share` of its rows that a micro-batch is.

    `lends`: with the gradients and new values of copies. They go during the backward pass if they are given early, that
    is unless micro-batches add them up first.
    """
    found = list(_messages(program, max(1, round(program.batch * share))))
    places = [_places(part) for part in program.parts]
    for loan in loans_of(program) if lends else ():
        found += _lent(program, loan, places[loan.borrower], gives_early=gives_early, clips=clips)
    return found


Places = list[dict[str, float]]  # of every segment, by weight


def _places(part: PartProgram) -> Places:
    """Return how much of a segment's work lies before the layer that uses a weight, as a share.

    Layers are taken to be equally long. So much of the backward pass is left when a weight's gradient is there, and so
    much of the forward pass is done before its value is needed.
    """
    names = [part.weights_of(segment) for segment in range(len(part.segments))]
    return [{name: place / len(some) for place, name in enumerate(some)} for some in names]


def _messages(program: Program, rows: int) -> Iterator[Parcel]:
    senders = {
        give.message: (p, s)
        for p, part in enumerate(program.parts)
        for s, segment in enumerate(part.segments)
        for give in segment.gives
        if isinstance(give, Send)
    }
    takers_of: dict[int, list[int]] = {message.number: [] for message in program.messages}
    for part in program.parts:
        for s, segment in enumerate(part.segments):
            for number in dict.fromkeys(take.message for take in segment.takes if isinstance(take, Receive)):
                takers_of[number].append(s)
    for message in program.messages:
        target, (source, sender) = message.target, senders[message.number]
        takers = takers_of[message.number]
        num_bytes = message.num_bytes(rows, program.batch)
        yield Parcel((source, FORWARD, sender), tuple((target, FORWARD, s) for s in takers), num_bytes)
        if message.learns:
            yield Parcel((target, BACKWARD, takers[0]), ((source, BACKWARD, sender),), num_bytes)


def _lent(program: Program, loan: Loan, places: Places, *, gives_early: bool, clips: bool) -> Iterator[Parcel]:
    """Yield a copy's gradient and its new value; those of a relay wait there for the gradients of others."""
    part = program.parts[loan.borrower]
    users = part.users[loan.copy]
    num_bytes, update = part.weights[loan.copy].num_bytes, (loan.owner, UPDATE, 0)
    if not users:
        return
    owner = (loan.owner, NORM, 0) if clips else update
    backward, taker = (loan.borrower, BACKWARD, users[0]), owner if loan.via is None else (loan.via, RELAY, 0)
    if loan.is_relay:
        yield Parcel((loan.borrower, RELAY, 0), (owner,), num_bytes)
        yield Parcel(update, ((loan.borrower, PASS, 0),), num_bytes)
    else:
        yield Parcel(backward, (taker,), num_bytes, places[users[0]][loan.copy] if gives_early else 0.0)
    takers, into = tuple((loan.borrower, FORWARD, s) for s in users), tuple(places[s][loan.copy] for s in users)
    yield Parcel(publisher_of(loan), takers, num_bytes, into=into, weight=(loan.owner, loan.lent))
