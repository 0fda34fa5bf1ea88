"""Simulate: Program + Schedule + Cluster -> Prediction, and what needs no cluster: a dry run, the memory."""

from hyperplace.steps.simulate.averaging import averaged_epoch_s
from hyperplace.steps.simulate.dry_run import DryRun, dry_run
from hyperplace.steps.simulate.memory import memory
from hyperplace.steps.simulate.predict import predict, simulate

__all__ = ["DryRun", "averaged_epoch_s", "dry_run", "memory", "predict", "simulate"]
