"""Dropout with a part's own random numbers, so that a run repeats whatever the threads do.

torch's dropout draws from one generator for all threads. Here the runtime seeds the part's generator for every segment
of every mini-batch; masks then depend on the seed, the part, the mini-batch and the segment alone.
"""

import torch
from torch import Tensor

from hyperplace.runtime.part import Part

ALPHA = -1.7580993408473766  # what SELU tends to for large negative values


def dropout(x: Tensor, p: float, part: Part) -> Tensor:
    """Drop single values."""
    if not part.training or p == 0.0:
        return x
    return x * _kept(x.shape, x, p, part).div_(1 - p) if p < 1 else x * 0


def feature_dropout(x: Tensor, p: float, part: Part) -> Tensor:
    """Drop whole channels of rows."""
    if not part.training or p == 0.0:
        return x
    return x * _kept(_per_channel(x), x, p, part).div_(1 - p) if p < 1 else x * 0


def alpha_dropout(x: Tensor, p: float, part: Part) -> Tensor:
    """Drop single values to what keeps mean and variance."""
    return _alpha(x, x.shape, p, part)


def feature_alpha_dropout(x: Tensor, p: float, part: Part) -> Tensor:
    """Drop whole channels of rows to what keeps mean and variance."""
    return _alpha(x, _per_channel(x), p, part)


def _alpha(x: Tensor, shape: tuple[int, ...], p: float, part: Part) -> Tensor:
    if not part.training or p == 0.0:
        return x
    if p >= 1:
        return x * 0
    kept = _kept(shape, x, p, part)
    scale: float = (1 - p + p * (1 - p) * ALPHA**2) ** -0.5
    return (x * kept + ALPHA * (1 - kept)) * scale - scale * ALPHA * p


def _per_channel(x: Tensor) -> tuple[int, ...]:
    return (*x.shape[:2], *(1 for _ in x.shape[2:]))


def _kept(shape: tuple[int, ...], x: Tensor, p: float, part: Part) -> Tensor:
    mask = torch.empty(shape, dtype=x.dtype, device=x.device)
    return mask.bernoulli_(1 - p, generator=part.generator)
