"""A rank for every part of a program, all on one transport."""

import os
from collections.abc import Callable, Mapping

from torch import Tensor

from hyperplace.errors import UsageError
from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.journal import Journal
from hyperplace.runtime.progress import Event
from hyperplace.runtime.rank import Options, Rank
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.runnable import Runnable
from hyperplace.runtime.structure import filled
from hyperplace.runtime.transport import Transport
from hyperplace.runtime.transport.__init__ import Endpoint
from hyperplace.runtime.weights import Training, Weights
from hyperplace.values.loans import find_loans, updaters
from hyperplace.values.schedule import Schedule


def made_ranks(
    runnable: Runnable,
    base: Mapping[str, Tensor],
    schedule: Schedule,
    *,
    training: Training,
    loss: Callable[..., Tensor],
    settings: RunSettings,
    transport: Transport,
    tell: Callable[[Event], None],
) -> list[Rank]:
    """Return the ranks, each with its slices of the tensors in `base`; what they have to say they `tell`."""
    program = runnable.program
    devices = settings.devices or ("cpu",) * len(program.parts)
    if len(devices) != len(program.parts):
        raise UsageError(f"{len(devices)} devices for {len(program.parts)} parts; give one for each")
    loans = find_loans(program.parts)
    owners = updaters(program.parts, loans)
    options = Options(
        loss=lambda outputs, target: loss(filled(program, outputs), target),
        updates_at_once=settings.schedule == "async",
        updates_together=settings.schedule == "sync" or settings.in_flight == 1,
        seed=settings.seed,
        threads=settings.threads or max(1, (os.cpu_count() or 1) // len(program.parts)),
        check_nan=settings.check_nan,
    )
    ranks = []
    for number, (kind, device) in enumerate(zip(runnable.classes, devices, strict=True)):
        part, journal = kind(device, program.batch), Journal(is_kept=settings.record)
        endpoint = Endpoint(number, transport, part.device, journal)
        weights = Weights(part, base, training)
        replicas = Replicas(program.parts[number], endpoint, weights, loans=loans, delays=schedule.delays)
        replicas.load(base)
        norm = None
        if training.clip_norm is not None and number in owners:
            norm = SharedNorm(endpoint, owners, weights, most=training.clip_norm)
        ranks.append(
            Rank(
                program,
                part,
                schedule.actions[number],
                endpoint,
                weights=weights,
                replicas=replicas,
                norm=norm,
                journal=journal,
                options=options,
                tell=tell,
            )
        )
    return ranks
