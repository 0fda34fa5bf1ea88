"""What all tests share.

A shell starts its background jobs with SIGINT ignored, and children inherit that: give the tests Ctrl-C as usual. And
two workers on two cores, each with as many threads of torch's as there are cores, wait for each other: a quarter of the
time of all tests.
"""

import os
import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
