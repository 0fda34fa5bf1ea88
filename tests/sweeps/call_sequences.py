"""Make random sequences of calls of a trainer: by hand, for 10,000 take some minutes.

Steps, predictions, flushes, state dicts, loads, closes, interrupts, faults and calls from another thread; sync and
async with one and four mini-batches in flight. Each call must return or raise a HyperplaceError within five seconds,
and the weights must be the plain loop's after so many updates (sync, async with one in flight). The tests run a share.

    python tests/sweeps/call_sequences.py [sequences] [first seed]
"""

import faulthandler
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from sequences import Sequence


def main(count, first):
    begin, modes, faults = time.perf_counter(), Counter(), 0
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(60, exit=True)  # where it hangs
        sequence = Sequence(seed)
        if fault := sequence.run():
            faults += 1
            print(f"seed {seed}, {sequence.mode}: {fault}", flush=True)
        modes[sequence.mode] += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{count} sequences, {faults} faults, {time.perf_counter() - begin:.0f} s; {dict(modes)}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
