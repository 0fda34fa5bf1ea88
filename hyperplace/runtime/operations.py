"""What generated programs call besides torch: dropout, batch norm over split rows, constants, buffers.

torch's dropout draws from one generator for all threads. Here the runtime seeds the part's generator for every segment
of every mini-batch; masks then depend on the seed, the part, the mini-batch and the segment alone.

Batch norm over rows that several parts have: each tells what it knows of its own, and all use the same numbers.
Statistics are a tensor of two lines, the mean and the variance of every channel. Everything here is differentiable, so
their gradients go back along the same messages, and a split norm has the gradients of one that sees all rows. As in
torch's batch norm, numbers of low precision are summed in float32, and in autocast statistics stay so.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hyperplace.runtime.norm_kernels import Norm, Statistics
from hyperplace.runtime.runnable import Part

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


def statistics(x: Tensor) -> Tensor:
    """Return the statistics of some rows; zeros where there are none."""
    if not x.shape[0]:
        return x.new_zeros(2, x.shape[1]) + x.sum()  # a sum of nothing: gradients pass through it all the same
    if _is_plain(x):
        return Statistics.apply(x)  # type: ignore[no-any-return, no-untyped-call]
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
    if x.shape[0] and _is_plain(x) and all(one is None or one.dtype == x.dtype for one in (total, weight, bias)):
        return Norm.apply(x, total, weight, bias, eps)  # type: ignore[no-any-return, no-untyped-call]
    scale = torch.rsqrt(total[1] + eps)
    scale = scale if weight is None else scale * weight
    shape = (1, -1, *(1 for _ in x.shape[2:]))
    normed = (x - total[0].reshape(shape)) * scale.reshape(shape)
    return (normed if bias is None else normed + bias.reshape(shape)).to(x.dtype)


def _is_plain(x: Tensor) -> bool:
    """Say whether the kernels take a tensor as it is, without a precision to change."""
    precise = x.dtype in (torch.float32, torch.float64)
    return precise and x.device.type == "cpu" and not torch.is_autocast_enabled(x.device.type)


def constant(numbers: str, shape: tuple[int, ...], dtype: torch.dtype, part: Part) -> Tensor:
    """Return numbers, written side by side, as a tensor on the part's device."""
    read = complex if dtype.is_complex else float if dtype.is_floating_point else int
    words = numbers.split()
    values = [word == "True" for word in words] if dtype == torch.bool else [read(word) for word in words]
    return torch.tensor(values, dtype=dtype, device=part.device).reshape(shape)


def store(part: Part, buffer: Tensor, value: Tensor) -> None:
    """Let a buffer be what a mini-batch has made of it; a prediction in evaluation mode changes none."""
    if part.training:
        with torch.no_grad():
            buffer.copy_(value)
