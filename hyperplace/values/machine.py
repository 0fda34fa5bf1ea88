"""The machine a measurement runs on, as one line: what a profile says of itself and is cached by."""

import platform
from pathlib import Path


def machine_line(device: str = "cpu", threads: int | None = None) -> str:
    """Return for instance `AMD EPYC, 2 threads, cpu, torch 2.13.0`: all that a timing depends on but the model.

    `threads` None means as many as torch uses now.
    """
    import torch

    threads = threads or torch.get_num_threads()
    noun = "thread" if threads == 1 else "threads"
    return f"{_processor(device)}, {threads} {noun}, {device}, torch {torch.__version__}"


def _processor(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "no GPU"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
