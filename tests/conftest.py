"""A shell starts its background jobs with SIGINT ignored, and children inherit that: give the tests Ctrl-C as usual."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
