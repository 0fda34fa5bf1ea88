"""Let memory that was freed be used again, instead of going back to the system and coming anew page by page.

glibc gives every block above 32 MiB pages of its own, which it returns when the block is freed, and threads have heaps
of 64 MiB that come and go. A training step frees and asks for hundreds of MiB (gradients, activations, versions of
weights), and each page that comes anew is a fault: of the 66,000 in a step of VGG16 1,800 are left, and it takes 8 %
less time.
"""

import ctypes
import os
import resource
import sys

# As malloc.h numbers them. A trim threshold of -1 is none: with the largest number that fits, 2 GiB, whoever closed a
# trainer of a large model gave its memory back, and the next one took it page by page again.
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX, ARENA_MAX = -1, -2, -4, -8
NEVER, PAD_BYTES = -1, 64 * 2**20
SETTINGS = {MMAP_MAX: 0, TRIM_THRESHOLD: NEVER, TOP_PAD: PAD_BYTES, ARENA_MAX: 1}
OWN_WISHES = ("MALLOC_", "GLIBC_TUNABLES")  # variables by which somebody has said otherwise


def keep_memory() -> bool:
    """Keep freed memory for this process's next use, and say whether that could be done.

    For whoever owns a process that trains, before its threads start. Nothing is done where the C library is not glibc,
    or where an environment variable (`MALLOC_ARENA_MAX`, ...) says what malloc is to do.
    """
    if sys.platform != "linux" or any(name.startswith(OWN_WISHES) for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in SETTINGS.items())


def num_faults() -> int:
    """Return how many pages of memory have come anew to this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
