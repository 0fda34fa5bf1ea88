"""Random sequences of calls of a trainer, beside a plain loop: used by the tests and by the sweep."""

import copy
import gc
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from handmade import batches
from interrupts import LIMIT_S, MODES, OTHER, Interrupter, Plain, make, same

from hyperplace.errors import HyperplaceError

DATA = batches(4)
READS = ("predict", "flush", "state_dict", "moved_bytes")


class Sequence:
    """One trainer, and all that a plain loop may have come to meanwhile."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mode = self.rng.choice(list(MODES))
        self.trainer = make(self.mode)
        self.plains = [Plain()]  # where the plain loop may be: the last is where it is, unless something was cut off
        self.is_certain = True

    def run(self) -> str:
        """Make some calls; return what was wrong, or nothing."""
        for _ in range(self.rng.randrange(3, 13)):
            name = self.rng.choices(
                ["step", *READS, "load", "item", "close", "interrupt", "fault", "thread"],
                [8, 2, 2, 2, 1, 1, 2, 0.4, 1.5, 0.7, 1.5],
            )[0]
            begin = time.monotonic()
            fault = getattr(self, f"do_{name}", lambda name=name: self.attempt(lambda: self.read(name)))()
            if time.monotonic() - begin > LIMIT_S:
                return f"{name} took {time.monotonic() - begin:.1f} s"
            is_seen = not self.is_certain or self.rng.random() < 0.5  # else mini-batches stay under way
            if fault or (is_seen and (fault := self.check())):
                return f"{name}: {fault}"
        return self.do_close() or self.check()

    def attempt(self, call: Callable[[], Any]) -> str:
        """Make a call that may be refused."""
        try:
            call()
        except (HyperplaceError, KeyboardInterrupt):
            self.is_certain = False
        except BaseException as fault:
            return repr(fault)
        return ""

    def read(self, name: str) -> None:
        method = getattr(self.trainer, name)
        method(*([DATA[0][0]] if name == "predict" else []))

    def write(self, name: str) -> None:
        """Step or load, here and in the plain loop; beforehand there, for an interrupt may come at any time."""
        plain = copy.deepcopy(self.plains[-1])
        batch = self.rng.choice(DATA)
        plain.step(*batch) if name == "step" else plain.load(OTHER)
        self.plains.append(plain)
        self.trainer.step(*batch) if name == "step" else self.trainer.load_state_dict(OTHER)

    def do_step(self) -> str:
        return self.attempt(lambda: self.write("step"))

    def do_load(self) -> str:
        return self.attempt(lambda: self.write("load"))

    def do_item(self) -> str:
        return self.attempt(lambda: self.trainer.step(*self._noted_batch()).item())

    def _noted_batch(self) -> Any:
        plain = copy.deepcopy(self.plains[-1])
        plain.step(*DATA[0])
        self.plains.append(plain)
        return DATA[0]

    def do_close(self) -> str:
        self.is_certain = False
        return self.attempt(self.trainer.close)

    def do_fault(self) -> str:
        """Let the next forward or backward pass of a part fail."""
        part = self.rng.choice(self.trainer.ranks).part

        def broken(*arguments: Any) -> Any:
            raise ValueError("injected")

        part.one = broken
        return ""

    def do_interrupt(self) -> str:
        name = self.rng.choice(["step", "load", *READS])
        interrupter = Interrupter(self.rng.randrange(200), opcodes=False)
        gc.disable()

        def call() -> None:
            sys.settrace(interrupter)
            self.read(name) if name in READS else self.write(name)

        try:
            return self.attempt(call)
        finally:
            sys.settrace(None)
            gc.enable()

    def do_thread(self) -> str:
        """Make two calls at once."""
        name = self.rng.choice([*READS, "close"])
        faults: list[str] = []
        other = self.trainer.close if name == "close" else lambda: self.read(name)
        thread = threading.Thread(target=lambda: faults.append(self.attempt(other)), daemon=True)
        thread.start()
        faults.append(self.do_step())
        thread.join(LIMIT_S)
        return f"{name} in another thread does not return" if thread.is_alive() else "".join(faults)

    def check(self) -> str:
        """Compare the weights with where the plain loop may be."""
        if self.mode == "async-4":
            return ""
        try:
            found = self.trainer.state_dict()
        except HyperplaceError:  # a fault is said once
            self.is_certain = False
            found = self.trainer.state_dict()
        self.is_certain &= self.trainer._is_open  # a fault may have come, and not been said yet
        places = [n for n, plain in enumerate(self.plains) if same(found, plain.state)]
        # One mini-batch may have been under way when something was cut off, and another just been begun.
        if not places or places[-1] < len(self.plains) - (1 if self.is_certain else 3):
            return f"the weights are those of {places or 'no plain loop'}, of {len(self.plains)} states"
        self.plains = self.plains[: places[-1] + 1]
        self.is_certain = True
        return ""
