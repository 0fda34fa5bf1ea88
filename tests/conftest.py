"""What all tests share.

A shell starts its background jobs with SIGINT ignored, and children inherit that: give the tests Ctrl-C as usual. And
two workers on two cores, each with as many threads of torch's as there are cores, wait for each other:
tests/steps/lower took 129 s that way, and 97 with one thread each.
"""

import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
