"""What every part needs of memory: Program + Schedule -> the bytes of each at its peak."""

from collections.abc import Collection, Mapping

from hyperplace.errors import UsageError
from hyperplace.steps.simulate.dry_run import dry_run
from hyperplace.values.cluster import Cluster
from hyperplace.values.loans import Loan, loans_of
from hyperplace.values.memory import OPTIMIZER_STATES, PartMemory
from hyperplace.values.program import PartProgram, Piece, Program
from hyperplace.values.relief import joined_bytes
from hyperplace.values.schedule import Schedule


def memory(
    program: Program,
    schedule: Schedule,
    *,
    optimizer: str = "sgd",
    in_flight: int | None = None,
    micro_batches: int | None = None,
    cluster: Cluster | None = None,
) -> tuple[PartMemory, ...]:
    """Return the memory of every part for mini-batches as planned; `optimizer` is a word of OPTIMIZER_STATES.

    `micro_batches`: of the sync schedule, into which every mini-batch is cut. On a `cluster`, what comes from another
    host is received into memory that is there for all `in_flight`, by default as many as the schedule holds.
    """
    if optimizer not in OPTIMIZER_STATES:
        raise UsageError(f"optimizer {optimizer!r} is unknown; choose one of {', '.join(OPTIMIZER_STATES)}")
    loans = loans_of(program)
    rows = -(-program.batch // (micro_batches or 1))
    posted = {one.number for one in program.messages if _is_far(cluster, one.source, one.target)}
    run = dry_run(program, schedule, micro_batches, rows=rows, posted=posted)
    depth = min(in_flight or schedule.depth + 1, micro_batches or in_flight or schedule.depth + 1)
    return tuple(
        PartMemory(
            weights=_bytes(part.weights) + _bytes(part.buffers),
            gradients=_bytes(part.weights),
            optimizer=OPTIMIZER_STATES[optimizer] * _bytes(part.owned),
            stashed=_stashed(p, part, schedule, loans, live=1 if micro_batches else run.live[p]),
            activations=run.saved_bytes[p] + _joined(part, run.live[p]),
            messages=run.waiting_bytes[p]
            + depth * _passes(program, p, posted, rows)
            + (1 if micro_batches else depth) * _updates(program, p, loans, cluster),
            working=2 * _largest(part) * rows // program.batch
            + (_adding(p, part, loans) if (micro_batches or 1) > 1 else 0),
            copied=_bytes(part.held) + OPTIMIZER_STATES[optimizer] * _bytes(part.owned),
        )
        for p, part in enumerate(program.parts)
    )


def _bytes(pieces: Mapping[str, Piece]) -> int:
    return sum(piece.num_bytes for piece in pieces.values())


def _largest(part: PartProgram) -> int:
    return max((segment.largest_bytes for segment in part.segments), default=0)


def _adding(p: int, part: PartProgram, loans: Collection[Loan]) -> int:
    """Return the gradients that a micro-batch makes before they are added to those before it.

    That is done layer by layer, but for weights that others have too only when all are there.
    """
    shared = {loan.lent for loan in loans if loan.owner == p} | {loan.copy for loan in loans if loan.borrower == p}
    own = [piece.num_bytes for name, piece in part.weights.items() if name not in shared]
    return sum(part.weights[name].num_bytes for name in shared) + max(own, default=0)


def _joined(part: PartProgram, live: int) -> int:
    """Return what weights take that are put together from pieces of several owners, and the gradient of one of them.

    Every mini-batch under way keeps its own for the backward pass; a segment that is recomputed or offloaded has them
    while it runs.
    """
    kept, again, largest = 0, 0, 0
    for number, segment in enumerate(part.segments):
        sizes = joined_bytes(part, number)
        kept += 0 if segment.is_lean else sum(sizes)
        again = max(again, sum(sizes) if segment.is_lean else 0)
        largest = max(largest, *sizes, 0)
    return live * kept + again + largest


def _is_far(cluster: Cluster | None, source: int, target: int) -> bool:
    return cluster is not None and cluster.home[source] != cluster.home[target]


def _stashed(p: int, part: PartProgram, schedule: Schedule, loans: Collection[Loan], *, live: int) -> int:
    """Return what versions of weights beside the newest take.

    Every mini-batch in flight but the oldest may see an older one. Weights that others have copies of are seen as
    snapshots, of which there is one at least, and newer ones wait until a mini-batch wants them. So do those that a
    part has passed on to others.
    """
    lent = {loan.lent for loan in loans if loan.owner == p}
    versions = {
        name: 1 + schedule.delays.get((p, name), 0) if name in lent else max(0, live - 1) for name in part.weights
    }
    for loan in loans:
        if loan.is_relay and loan.borrower == p:
            versions[loan.copy] += schedule.delays.get((loan.owner, loan.lent), 0)
    return sum(count * part.weights[name].num_bytes for name, count in versions.items())


def _passes(program: Program, p: int, posted: Collection[int], rows: int) -> int:
    """Return what other hosts send a part for a mini-batch: messages, and gradients of those that it sends."""
    some = [program.messages[number] for number in posted]
    here = [one for one in some if one.target == p or (one.source == p and one.learns)]
    return sum(one.num_bytes(rows, program.batch) for one in here)


def _updates(program: Program, p: int, loans: Collection[Loan], cluster: Cluster | None) -> int:
    """Return what other hosts send a part for an update: gradients of what it lends, new values of what it borrows."""
    far = [loan for loan in loans if p in (loan.peer, loan.borrower) and _is_far(cluster, loan.peer, loan.borrower)]
    return sum(program.parts[loan.borrower].weights[loan.copy].num_bytes for loan in far)
