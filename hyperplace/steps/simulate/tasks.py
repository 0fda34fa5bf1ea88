"""What a schedule lets the parts of a program do, in which order, for a number of mini-batches or iterations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hyperplace.errors import UsageError
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Needs, Node, Parcel, closing_of, durations, needs_of, parcels_of
from hyperplace.values.derived.copying import with_copies
from hyperplace.values.derived.traffic import seconds
from hyperplace.values.loans import loans_of, users_of
from hyperplace.values.program import Program
from hyperplace.values.schedule import FORWARD, NORM, UPDATE, Schedule

ROUNDS = 8  # of as many mini-batches as there can be in flight, between filling the pipe and letting it run dry

Done = tuple[int, Node]  # a mini-batch's action
Spans = dict[Done, tuple[float, float]]  # when it begins and ends
Weight = tuple[int, str]  # its owner and attribute


@dataclass(frozen=True)
class Tasks:
    """What is to be simulated: the actions of a mini-batch, what they wait for and send, and in which order each part
    does which of which mini-batch.

    `users`: who sees a weight that is lent on its owner's part, and `delays`: how many mini-batches later, there and
    elsewhere.
    """

    needs: Needs
    work: Mapping[Node, float]
    parcels: Sequence[Parcel]
    todo: Sequence[Sequence[Done]]
    delays: Mapping[Weight, int] = field(default_factory=dict)
    users: Mapping[Weight, set[Node]] = field(default_factory=dict)
    adds_up: int = 1  # micro-batches, of which the last brings the gradients of copies


def kind_of(node: Node) -> str:
    """Return the kind of the action that a node is, or is a piece of: F3 is one of F."""
    return FORWARD if node[1].startswith(FORWARD) else node[1]


def enough_batches(schedule: Schedule) -> int:
    """Return how many mini-batches show the steady state."""
    return (ROUNDS + 2) * (schedule.depth + 1)


def tasks_of(program: Program, schedule: Schedule, num_batches: int, cluster: Cluster | None = None) -> Tasks:
    """Return what is done for mini-batches one after the other, with as many under way as the schedule lets."""
    kinds = {action.kind for row in schedule.actions for action in row}
    is_sync, clips = UPDATE not in kinds, NORM in kinds
    needs = needs_of(program, is_sync=is_sync, clips=clips)
    check_complete(program, schedule, needs)
    users = {} if is_sync else users_of(program.parts, loans_of(program))
    if unknown := [weight for weight in users if weight not in schedule.delays]:
        owner, name = unknown[0]
        raise UsageError(f"the schedule does not say after how many ticks {name} of part {owner} is seen")
    parcels = parcels_of(program, clips=clips, lends=not is_sync)
    work = with_copies(seconds(program, durations(program, needs), cluster), program, schedule, cluster)
    todo = [list(_todo(schedule, p, num_batches)) for p in range(len(program.parts))]
    own = {weight: {(p, FORWARD, s) for p, s in some if p == weight[0]} for weight, some in users.items()}
    return Tasks(needs, work, parcels, todo, schedule.delays, own)


def iterations_of(
    program: Program, schedule: Schedule, micro_batches: int, count: int, cluster: Cluster | None = None
) -> Tasks:
    """Return what is done for the micro-batches of some mini-batches, with the update that follows each of these.

    New weights of copies are waited for by the first micro-batch of the next.
    """
    needs = needs_of(program, is_sync=True)
    check_complete(program, schedule, needs)
    last, loans = closing_of(program), loans_of(program)
    nodes: Needs = needs | {node: set() for node in last}
    share = 1 / micro_batches
    parcels = parcels_of(program, gives_early=micro_batches == 1, share=share)
    alone = seconds(program, durations(program, nodes, share=share), cluster, share=share)
    work = with_copies(alone, program, schedule, cluster, micro_batches=micro_batches)
    todo: list[list[Done]] = [[] for _ in program.parts]
    for p, some in enumerate(todo):
        own = list(_todo(schedule, p, micro_batches))
        own += [(micro_batches - 1, node) for node in last if node[0] == p]
        some += [
            (first + batch, node) for first in range(0, count * micro_batches, micro_batches) for batch, node in own
        ]
    return Tasks(nodes, work, parcels, todo, {(loan.owner, loan.lent): 1 for loan in loans}, adds_up=micro_batches)


def steady_period(spans: Spans, depth: int) -> float:
    """Return the time from mini-batch to mini-batch between the first and the last `depth`, that fill and drain."""
    last = [0.0] * (1 + max((batch for batch, _ in spans), default=0))
    for (batch, _), (_, end) in spans.items():
        last[batch] = max(last[batch], end)
    first, final = min(3 * depth, len(last) // 2), len(last) - 1 - depth
    return (last[final] - last[first]) / (final - first) if final > first else last[-1] / len(last)


def _todo(schedule: Schedule, part: int, num_batches: int) -> Iterator[Done]:
    """Yield a part's actions in order: its row again and again, for the mini-batches that there are."""
    for tick in range(num_batches + schedule.depth):
        for action in schedule.actions[part]:
            if 0 <= tick - action.offset < num_batches:
                yield tick - action.offset, (part, action.kind, action.segment)


def check_complete(program: Program, schedule: Schedule, needs: Needs) -> None:
    """Refuse a schedule that has not every action of the program once."""
    if len(schedule.actions) != len(program.parts):
        raise UsageError(f"the schedule has {len(schedule.actions)} parts, the program {len(program.parts)}")
    found = [(p, action.kind, action.segment) for p, row in enumerate(schedule.actions) for action in row]
    if sorted(found) != sorted(needs):
        wrong = sorted(set(found) ^ set(needs)) or sorted(node for node in set(found) if found.count(node) > 1)
        part, kind, segment = wrong[0]
        raise UsageError(
            f"the schedule has {kind}{segment} of part {part} {found.count(wrong[0])} times instead of once"
        )
