"""What every part needs of memory: Program + Schedule -> the bytes of each at its peak."""

from collections.abc import Mapping

from hyperplace.errors import UsageError
from hyperplace.steps.simulate.dry_run import dry_run
from hyperplace.values.loans import loans_of
from hyperplace.values.memory import OPTIMIZER_STATES, PartMemory
from hyperplace.values.program import PartProgram, Piece, Program
from hyperplace.values.schedule import Schedule


def memory(program: Program, schedule: Schedule, *, optimizer: str = "sgd") -> tuple[PartMemory, ...]:
    """Return the memory of every part for mini-batches as planned; `optimizer` is a word of OPTIMIZER_STATES."""
    if optimizer not in OPTIMIZER_STATES:
        raise UsageError(f"optimizer {optimizer!r} is unknown; choose one of {', '.join(OPTIMIZER_STATES)}")
    run = dry_run(program, schedule)
    lent = {(loan.owner, loan.lent) for loan in loans_of(program)}
    return tuple(
        PartMemory(
            weights=_bytes(part.weights) + _bytes(part.buffers),
            gradients=_bytes(part.weights),
            optimizer=OPTIMIZER_STATES[optimizer] * _bytes(part.owned),
            stashed=_stashed(p, part, schedule, run.live[p], lent),
            activations=run.saved_bytes[p],
            messages=run.waiting_bytes[p],
            working=2 * max((segment.largest_bytes for segment in part.segments), default=0),
        )
        for p, part in enumerate(program.parts)
    )


def _bytes(pieces: Mapping[str, Piece]) -> int:
    return sum(piece.num_bytes for piece in pieces.values())


def _stashed(p: int, part: PartProgram, schedule: Schedule, live: int, lent: set[tuple[int, str]]) -> int:
    """Return what versions of weights beside the newest take.

    Every mini-batch in flight but the oldest may see an older one. Weights that others have copies of are seen as
    snapshots, of which there is one at least, and newer ones wait until a mini-batch wants them.
    """
    versions = {
        name: 1 + schedule.delays.get((p, name), 0) if (p, name) in lent else max(0, live - 1) for name in part.weights
    }
    return sum(count * part.weights[name].num_bytes for name, count in versions.items())
