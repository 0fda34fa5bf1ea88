"""Train random models split and plain: by hand, a share of it is in the test suite.

One way of grain, k, schedule and rows is drawn for every model. Faults are written with their seed, the way and the
model as text; exit code 1 if there is one.

    python tests/sweeps/random_models.py 2000 0 [faults.txt]
"""

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

from drawn_models import outcome_of


def main(count: int, first_seed: int, path: Path | None) -> int:
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for seed in range(first_seed, first_seed + count):
        outcome = outcome_of(seed)
        counts[outcome.kind] += 1
        if outcome.is_fault:
            _tell(f"seed {seed}: {outcome}", path)
    print(f"{count} models in {time.monotonic() - began:.0f} s: {dict(counts)}")
    return int(counts["WRONG"] + counts["EXCEPTION"] > 0)


def _tell(text: str, path: Path | None) -> None:
    print(text, flush=True)
    if path:
        with path.open("a") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None))
