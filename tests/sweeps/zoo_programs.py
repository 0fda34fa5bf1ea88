"""Run every zoo model split every way against plain torch: by hand, for it takes 15 minutes (`make sweep-programs`).

Coarse, fine and hybrid grain, k = 2, 3, 4, every baseline partitioner, float64: the loss, the state dict after one
update (so gradients and batch norm statistics too) and the bytes per pair of parts. The test suite runs a share of
this. A line is written per case as it finishes, a case that is there already is not run again, and any difference
above 1e-9 ends in exit code 1.

    python tests/sweeps/zoo_programs.py results/zoo-programs.csv [model ...]
"""

import sys
from itertools import product
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "steps" / "lower"))

from program_cases import largest_difference, planned, trainer_of
from sweep_rows import append_row, read_rows
from test_zoo_programs import case

from hyperplace.models import ZOO

COLUMNS = ("model", "grain", "k", "partitioner", "loss_difference", "state_difference", "bytes_as_planned")
BASELINES = ("layerwise", "horizontal", "incremental", "random")
CASES = [
    *product(("coarse", "fine"), (2, 3, 4), BASELINES),
    *product(("hybrid",), (2, 3, 4), (*BASELINES, "dataparallel")),
]
BLOCKS = {"coarse": 8, "fine": 4, "hybrid": 2}


def main(path, names):
    rows = read_rows(path)
    done = {(row["model"], row["grain"], int(row["k"]), row["partitioner"]) for row in rows}
    is_wrong = any(_is_wrong(row) for row in rows)
    for name in names:
        for grain, k, how in CASES:
            if (name, grain, k, how) not in done:
                row = _row(name, grain, k, how)
                is_wrong |= _is_wrong(row)
                append_row(path, row)
        case.cache_clear()
    return int(is_wrong)


def _row(name, grain, k, how):
    """Return what one step of a split model differs by."""
    net, x, y, graph, (loss, after) = case(name, torch.float64)
    blocks = 1 if how == "dataparallel" else BLOCKS[grain]
    plan = planned(graph, grain, k, how, blocks=blocks, row_blocks=k)
    with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
        found = abs(trainer.step(x, y).item() - loss)
        state = largest_difference(trainer.state_dict(), after.state_dict())
        is_planned = trainer.moved_bytes() == plan.moved_bytes
    return dict(zip(COLUMNS, (name, grain, k, how, f"{found:.1e}", f"{state:.1e}", is_planned), strict=True))


def _is_wrong(row):
    largest = max(float(row["loss_difference"]), float(row["state_difference"]))
    return not largest < 1e-9 or str(row["bytes_as_planned"]) != "True"


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or list(ZOO)))
