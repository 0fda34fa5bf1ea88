"""Let threads of a process take turns on a core instead of pushing each other off it.

gloo has a thread that waits for packets. Linux lets whoever wakes up push the running thread off its core; where a host
has one core for both, that is often the thread that is just sending and holds the lock of the connection. gloo's thread
then asks for that lock without end, until the next tick of the clock, 4 ms later: on emulated hosts of one core a short
message there and back took 2 to 6 ms, and takes 0.12 ms where nobody is pushed off.
"""

import os


def take_turns() -> bool:
    """Let this thread, and those it starts from now on, wait for a core until another lets go of it or its time is up.

    For whoever owns a process that trains, before torch.distributed starts its threads. Says whether it could be done:
    only Linux knows SCHED_BATCH, and a policy that somebody has chosen (`chrt`) stays as it is.
    """
    if not hasattr(os, "SCHED_BATCH") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    except OSError:  # a container may forbid it
        return False
    return True
