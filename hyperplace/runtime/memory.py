"""What programs do with memory besides computing: constants of the model's code, and buffers that forward changes."""

import torch
from torch import Tensor

from hyperplace.runtime.part import Part


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
