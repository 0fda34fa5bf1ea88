"""Measure what parts hold at their peak beside what was predicted, and write results/memory/memory.csv.

A process per part on this machine; measured_memory.py says what is counted.

    python tests/sweeps/memory_table.py
"""

import csv
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

from measured_memory import made
from ranks import lines, run

from hyperplace import api, place

OUT = Path(__file__).parents[2] / "results" / "memory" / "memory.csv"
MODELS = (  # name, side, batch, grain, partitioner
    ("vgg16", 64, 16, "coarse", "incremental"),
    ("vgg16", 64, 16, "hybrid", "dataparallel"),
    ("resnet18", 64, 16, "coarse", "layerwise"),
    ("chain", 64, 32, "coarse", "layerwise"),
)
FLOWS = (  # schedule, in flight, micro-batches, recompute
    ("async", 1, 1, "none"),
    ("async", 4, 1, "none"),
    ("async", 4, 1, "all"),
    ("sync", 4, 2, "none"),
    ("sync", 4, 2, "all"),
)
FIGURES = ("predicted", "tensors", "resident")


def rows():
    """Yield the figures of every part, in MiB."""
    for name, side, batch, grain, partitioner in MODELS:
        sample = torch.zeros(batch, 3, side, side)
        words = {"k": 2, "imbalance": 1.0, "grain": grain, "partitioner": partitioner, "costs": "flops"}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.json"
            api.save_plan(place(made(name, side), sample, **words), path)
            for schedule, in_flight, pieces, recompute in FLOWS:
                number = 1 if name == "resnet18" else pieces  # batch norm sees all rows
                arguments = (path, name, side, schedule, in_flight, number, recompute, 6)
                found = lines(run(2, "measured_memory.py", *arguments, MALLOC_MMAP_THRESHOLD_="65536", limit_s=500))
                for one in sorted(found, key=lambda one: one["part"]):
                    error = round(100 * (one["tensors"] / one["predicted"] - 1))
                    figures = [f"{one[figure] / 2**20:.1f}" for figure in FIGURES]
                    yield [name, partitioner, schedule, in_flight, number, recompute, one["part"], *figures, error]


def main():
    head = ["model", "plan", "schedule", "in flight", "micro-batches", "recompute", "part"]
    head += [f"{figure} MiB" for figure in FIGURES] + ["tensors / predicted - 1 %"]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with open(OUT, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for row in rows():
            writer.writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    main()
