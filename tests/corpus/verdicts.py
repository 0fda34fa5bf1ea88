"""What became of a run, and in what two runs differ.

An outcome is one of

    equal      as plain torch, within the habit's tolerance
    refused    a HyperplaceError before anything was trained, with its message
    plain      plain torch fails as well, and so do we, by a HyperplaceError
    lax        plain torch fails, and we train: an assert on the rows, a model without parameters
    not asked  micro-batches of a model whose rows depend on each other: by their nature another model
    WRONG      something differs, and how far
    EXCEPTION  anything else that was raised, or a worker's fault in the midst of training
"""

import traceback
from dataclasses import dataclass

import torch
from torch import Tensor

from hyperplace.errors import HyperplaceError

FAULTS = ("WRONG", "EXCEPTION")


@dataclass(frozen=True)
class Outcome:
    """What became of one run; `detail` is the message, or how far it is off."""

    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in FAULTS

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    losses: list[float]
    state: dict[str, Tensor]
    predictions: list[Tensor]


def faults_between(found: Trained, wanted: Trained, tolerance: float) -> list[str]:
    """Return in what two runs differ by more than the tolerance."""
    pairs = {
        f"loss {n}": map(torch.tensor, pair) for n, pair in enumerate(zip(found.losses, wanted.losses, strict=True))
    }
    faults = []
    if found.state.keys() != wanted.state.keys():
        faults.append(f"state dict has other names: {sorted(found.state.keys() ^ wanted.state.keys())}")
    else:
        pairs |= {name: (found.state[name], wanted.state[name]) for name in wanted.state}
    if len(found.predictions) != len(wanted.predictions):
        faults.append(f"{len(found.predictions)} outputs instead of {len(wanted.predictions)}")
    else:
        both = zip(found.predictions, wanted.predictions, strict=True)
        pairs |= {f"prediction {n}": pair for n, pair in enumerate(both)}
    return faults + [fault for name, pair in pairs.items() if (fault := _difference(name, *pair, tolerance))]


def _difference(name: str, found: Tensor, wanted: Tensor, tolerance: float) -> str:
    if found.shape != wanted.shape:
        return f"{name} has shape {tuple(found.shape)} instead of {tuple(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"{name} is {found.dtype} instead of {wanted.dtype}"
    if torch.equal(found, wanted) or not found.numel():
        return ""
    wide = torch.complex128 if found.is_complex() else torch.float64
    found, wanted = found.to(wide), wanted.to(wide)
    if not torch.equal(found.isfinite(), wanted.isfinite()):
        return f"{name} is finite in other places"
    found, wanted = found.nan_to_num(), wanted.nan_to_num()  # a loss over no rows is not a number in plain torch, too
    far = float((found - wanted).abs().max() / max(1.0, float(wanted.abs().max())))
    return "" if far <= tolerance else f"{name} is off by {far:.1e}"


def same_mean(found: Tensor, wanted: Tensor) -> bool:
    """Whether two samples of random numbers may have one mean: six standard errors apart at most."""
    if found.shape != wanted.shape:
        return False
    one, two, rows = found.double().flatten(1), wanted.double().flatten(1), len(found)
    bound = 6 * ((one.var(0) + two.var(0)) / rows).sqrt() + 1e-9
    return bool(((one.mean(0) - two.mean(0)).abs() <= bound).all())


def verdict(faults: list[str]) -> Outcome:
    return (
        Outcome("WRONG", "; ".join(faults[:3]) + ("; ..." if len(faults) > 3 else "")) if faults else Outcome("equal")
    )


def raised(fault: BaseException) -> Outcome:
    """Return an exception with the last line of hyperplace it went through."""
    root = fault
    while isinstance(root, HyperplaceError) and root.__cause__ is not None:
        root = root.__cause__
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "/hyperplace/" in frame.filename]
    place = f" at {frames[-1].filename.rpartition('/hyperplace/')[2]}:{frames[-1].lineno}" if frames else ""
    return Outcome("EXCEPTION", f"{type(fault).__name__}: {first_line(fault)}{place}")


def first_line(fault: BaseException) -> str:
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), "")
