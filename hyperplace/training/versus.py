"""Train the plain loop and the split model by turns, epoch by epoch, from the same weights on the same mini-batches.

By turns, because a machine's speed drifts: whatever else it does slows both.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from hyperplace.training.epoch import Epoch, OnSnapshot, Progress
from hyperplace.training.learner import Judge, Learner, PlainLearner, intra_op_threads
from hyperplace.training.run import OnEpoch, make_trainer, method_name, sgd
from hyperplace.training.sets import Sets
from hyperplace.training.settings import Flow, TrainSettings
from hyperplace.values.history import HistoryRow
from hyperplace.values.plan import Plan


def train_beside_plain(
    make: Callable[[int], nn.Module],
    plan: Plan,
    settings: TrainSettings,
    sets: Sets,
    *,
    flow: Flow,
    seeds: Sequence[int],
    on_step: OnSnapshot = lambda shown: None,
    on_epoch: OnEpoch = lambda shown, rows: None,
) -> list[HistoryRow]:
    """Return the rows of both for every seed; `make` makes the model with a seed's weights.

    The plain loop has as many threads as one part.
    """
    rows: list[HistoryRow] = []
    threads = flow.threads_for(plan.settings.k)
    for seed in seeds:
        own = replace(settings, seed=seed)
        judges = Judge(), Judge()
        plain = _plain(make(seed), own, judges[0])
        with make_trainer(make(seed), plan, own, flow, judges[1]) as trainer:
            names = f"plain loop, {threads} thread{'s' if threads > 1 else ''}", method_name(plan, flow)
            learners: tuple[Learner, Learner] = plain, trainer
            runs = [
                Epoch(learner, judge, Progress(name), own, sets, on_step)
                for learner, judge, name in zip(learners, judges, names, strict=True)
            ]
            for _ in range(settings.epochs):
                for run in runs:
                    with intra_op_threads(threads):
                        shown = run.run()
                    rows.append(run.progress.rows[-1])
                    if shown:
                        on_epoch(shown, rows)
    return rows


def _plain(model: nn.Module, settings: TrainSettings, judge: Judge) -> PlainLearner:
    return PlainLearner(model, sgd(settings)(model.parameters()), judge)
