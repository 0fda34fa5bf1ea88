"""Batch norm over rows that several parts have: each tells what it knows of its own, and all use the same numbers.

Statistics are a tensor of two lines, the mean and the variance of every channel. Everything here is differentiable, so
their gradients go back along the same messages, and a split norm has the gradients of one that sees all rows. As in
torch's batch norm, numbers of low precision are summed in float32, and in autocast statistics stay so.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hyperplace.runtime.part import Part


def statistics(x: Tensor) -> Tensor:
    """Return the statistics of some rows; zeros where there are none."""
    if not x.shape[0]:
        return x.new_zeros(2, x.shape[1]) + x.sum()  # a sum of nothing: gradients pass through it all the same
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    variance, mean = torch.var_mean(precise, dim=[d for d in range(x.ndim) if d != 1], correction=0)
    found = torch.stack((mean, variance))
    return found if torch.is_autocast_enabled(x.device.type) else found.to(x.dtype)


def joint(pieces: Sequence[Tensor], rows: Sequence[int]) -> Tensor:
    """Return the statistics of all rows from those of pieces with so many rows each."""
    shares = [count / max(1, sum(rows)) for count in rows]
    mean = sum(share * piece[0] for share, piece in zip(shares, pieces, strict=True))
    spread = (piece[1] + (piece[0] - mean) ** 2 for piece in pieces)
    variance = sum(share * one for share, one in zip(shares, spread, strict=True))
    return torch.stack((torch.as_tensor(mean), torch.as_tensor(variance)))


def track(total: Tensor, part: Part, *, mean: Tensor, variance: Tensor, momentum: float, count: int) -> None:
    """Move the running statistics towards those of `count` values a channel; of none there are no statistics."""
    if not (part.training and count):
        return
    if count < 2:
        raise ValueError(f"expected more than 1 value per channel when training, got {count}")
    with torch.no_grad():
        mean.lerp_(total[0].to(mean.dtype), momentum)
        variance.lerp_((total[1] * (count / (count - 1))).to(variance.dtype), momentum)


def normalise(
    x: Tensor,
    total: Tensor,
    part: Part,
    *,
    eps: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
) -> Tensor:
    """Return the norm of some rows by the statistics of all; in evaluation mode by the running ones, if there are."""
    if not part.training and mean is not None and variance is not None:
        return torch.batch_norm(x, weight, bias, mean, variance, False, 0.0, eps, False)
    scale = torch.rsqrt(total[1] + eps)
    scale = scale if weight is None else scale * weight
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    normed = (x - total[0].reshape(shape)) * scale.reshape(shape)
    return (normed if bias is None else normed + bias.reshape(shape)).to(x.dtype)
