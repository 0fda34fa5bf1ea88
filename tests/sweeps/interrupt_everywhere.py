"""Interrupt a trainer's caller at every line and every bytecode: by hand, for it takes some ten minutes.

A small model, every kind of call, sync, async with one and with four mini-batches in flight. Afterwards the trainer
must answer within five seconds, its weights must be those after a whole number of updates (with several in flight, each
part's own), and it must go on as the plain loop does or say that it was interrupted. The tests run a share of this.

    python tests/sweeps/interrupt_everywhere.py [sync|async-1|async-4 ...]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))

from interrupts import MODES, fault_after, interrupted, states_of


def main(modes):
    num_faults = 0
    for mode in modes:
        for opcodes in (False, True):
            num_faults += swept(mode, opcodes=opcodes)
    sys.exit(bool(num_faults))


def swept(mode, *, opcodes):
    """Interrupt everywhere, print what was wrong and how it went, and return how often."""
    states, begin = states_of(mode), time.perf_counter()
    at = num_faults = num_broken = 0
    while True:
        trainer, where = interrupted(mode, at, opcodes=opcodes)
        if not where:
            trainer.close()
            break
        if fault := fault_after(mode, trainer, states):
            num_faults += 1
            print(f"{mode}: interrupted at {where}: {fault}", flush=True)
        num_broken += trainer.calls.broken_by is not None
        at += 1
    kind = "bytecodes" if opcodes else "lines"
    seconds = time.perf_counter() - begin
    print(f"{mode}: {at} {kind}, {num_broken} broken, {num_faults} faults, {seconds:.0f} s", flush=True)
    return num_faults


if __name__ == "__main__":
    main(sys.argv[1:] or MODES)
