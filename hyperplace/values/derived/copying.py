"""What parts read and write in memory beside the work of their layers: Program + Schedule -> bytes of every action.

    forward    puts weights together from pieces of several owners
    backward   adds a micro-batch's gradients to those of the micro-batches before it
    update     moves to new memory what mini-batches under way still see; or, of what others have copies of, adds up the
               gradients that they sent, and takes a snapshot for them

Layers are measured each by itself, and have none of this. VGG16's weights are 168 MiB: to copy them takes one core some
20 ms, and a mini-batch of sixteen small images 350 on two.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Node
from hyperplace.values.loans import Loan, loans_of
from hyperplace.values.program import PartProgram, Program
from hyperplace.values.relief import joined_bytes
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Action, Schedule

ADDED = 1.5  # bytes copied that take as long as one added: two are read and one is written, instead of one and one


def with_copies(
    work: Mapping[Node, float],
    program: Program,
    schedule: Schedule,
    cluster: Cluster | None,
    *,
    micro_batches: int | None = None,
) -> Mapping[Node, float]:
    """Return the seconds of all actions with what copying takes on devices of which that is known."""
    paces = [device.copy_s_per_byte or 0.0 for device in cluster.devices] if cluster else []
    if not any(paces):
        return work
    copied = copied_bytes(program, schedule, work, micro_batches=micro_batches)
    return {node: time + paces[node[0]] * copied.get(node, 0.0) for node, time in work.items()}


def copied_bytes(
    program: Program, schedule: Schedule, nodes: Collection[Node], *, micro_batches: int | None = None
) -> Mapping[Node, float]:
    """Return how many bytes actions copy, additions as so many that take as long.

    `micro_batches`: of the sync schedule, in which nothing is under way when parts update.
    """
    found: defaultdict[Node, float] = defaultdict(float)
    updates = {node[0] for node in nodes if node[1] == UPDATE}
    again = ADDED * (1 - 1 / (micro_batches or 1))  # the first one's gradients are not added to any
    lent, given = _lent(program)
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            joined = sum(joined_bytes(part, s))
            found[p, FORWARD, s] += joined
            found[p, BACKWARD, s] += joined * segment.recomputes + again * _bytes(part, part.weights_of(s))
        last = (p, UPDATE, 0) if p in updates else (p, BACKWARD, 0)
        found[last] += _bytes(part, lent[p]) + ADDED * given[p]
        if micro_batches is None and part.segments:
            seen = {name for s in _seen_again(schedule.actions[p]) for name in part.weights_of(s)}
            found[last] += _bytes(part, (seen & part.owned.keys()) - lent[p])
    return found


def _lent(program: Program) -> tuple[dict[int, set[str]], Counter[int]]:
    """Return what every part lends, and the bytes of the gradients that it is sent for that."""
    lent: defaultdict[int, set[str]] = defaultdict(set)
    given: Counter[int] = Counter()
    for loan in loans_of(program):
        lent[loan.owner].add(loan.lent)
        if loan.via is None:
            given[loan.owner] += _size(program, loan)
    return lent, given


def _bytes(part: PartProgram, names: Iterable[str]) -> int:
    return sum(part.weights[name].num_bytes for name in names)


def _size(program: Program, loan: Loan) -> int:
    return program.parts[loan.borrower].weights[loan.copy].num_bytes


def _seen_again(row: Iterable[Action]) -> list[int]:
    """Return the segments that a later mini-batch has run forward when a part updates.

    Of the mini-batch that enters in tick 0 the part updates at its last action; of the next one all is a tick later.
    """
    placed = [(action.offset, place, action) for place, action in enumerate(row)]
    update = max((offset, place) for offset, place, action in placed if action.kind in (BACKWARD, UPDATE))
    return [
        action.segment for offset, place, action in placed if action.kind == FORWARD and (offset + 1, place) < update
    ]
