"""Memory that is freed is used again: counted by the faults of a process that asks for the same blocks again."""

import os
import subprocess
import sys

import pytest

from hyperplace.allocator import keep_memory

FAULTS = """
import resource, sys, threading
import torch
from hyperplace.allocator import keep_memory

if sys.argv[1] == "keep":
    assert keep_memory()

def use():
    live = []
    for number in range(120):
        live.append(torch.ones((20, 48, 64)[number % 3] * 2**18))  # MiB: more than glibc keeps on a heap by itself
        del live[:-3]
        if number == 59:  # the heap has found its size by the 42nd at the latest, which depends on where it begins
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=use)
thread.start()
thread.join()
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(os, "confstr") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""),
    reason="malloc of glibc",
)


def printed(script, *words):
    """Return the number that a script prints where nobody has told malloc what to do."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ran = subprocess.run(
        [sys.executable, "-c", script, *words], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return int(ran.stdout)


def test_freed_memory_is_used_again():
    assert printed(FAULTS, "keep") < printed(FAULTS, "as it is") / 10


HEAP = """
import torch
from hyperplace.allocator import keep_memory

def pages():
    return int(open("/proc/self/statm").read().split()[5])

assert keep_memory()
block = torch.empty(3 * 2**30, dtype=torch.uint8)  # asked for and not touched
with_it = pages()
del block
print(with_it - pages())
"""


def test_more_than_two_gigabytes_are_kept_too():
    """They went back: each trainer of a large model began with hundreds of thousands of faults, for some 15 s."""
    assert printed(HEAP) < 1000


def test_whoever_told_malloc_what_to_do_is_heeded(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert not keep_memory()
