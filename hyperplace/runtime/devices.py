"""Where parts may run."""

from collections.abc import Iterator
from typing import Any


def device_faults(argument: str, name: Any) -> Iterator[str]:
    """Say why nothing can run on a device; `argument` is where the user named it."""
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        yield f"{argument} {name} is no device; give cpu or cuda:0, or several such as cuda:0,cuda:1"
        return
    if device.type not in ("cpu", "cuda"):
        yield f"{argument} {name} is not supported; give cpu or cuda:0"
    elif device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        yield f"{argument} {name} is not here: this machine has {torch.cuda.device_count()} GPUs"
