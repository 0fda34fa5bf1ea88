"""Wait for others in a way that can be given up: some calls of gloo and of torch's store never come back.

gloo tells whoever waits that a connection is broken, but not the one whose message has begun to arrive and stopped
halfway, as it does where a host is lost. What a caller waits for is therefore waited for by a thread of its own, which
is left behind where there is nothing to wait for any more.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.1

T = TypeVar("T")


def patiently(work: Callable[[], T], look: Callable[[], BaseException | None]) -> T:
    """Return what some work gives, or raise what it raises; or what a look finds meanwhile, which ends the waiting."""
    found: list[T] = []
    faults: list[BaseException] = []
    is_done = threading.Event()

    def run() -> None:
        try:
            found.append(work())
        except BaseException as fault:
            faults.append(fault)
        is_done.set()

    threading.Thread(target=run, name="hyperplace waits", daemon=True).start()
    while not is_done.wait(LOOK_S):
        if fault := look():
            raise fault
    if faults:
        raise faults[0]
    return found[0]
