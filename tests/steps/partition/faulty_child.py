"""A partitioner process that fails in the way its question's `solver` names; run by the sandbox in test_child.py."""

import ctypes
import os
import signal
import sys
import time

import numpy as np


def main(request_path: str, answer_path: str) -> None:
    with np.load(request_path, allow_pickle=False) as request:
        fault, rows, num_vertices = str(request["solver"]), len(request["seeds"]), len(request["weights"])
    good = np.zeros((rows, num_vertices), np.int64)
    answers = {
        "good": good,
        "short": good[:, 1:],
        "too few rows": good[1:],
        "floats": good + 0.5,
        "part too high": good + 99,
        "part negative": good - 1,
    }
    if fault in answers:
        np.savez(answer_path, part_of=answers[fault])
    elif fault == "pickle":
        np.savez(answer_path, part_of=np.array([[print]], dtype=object), allow_pickle=True)
    elif fault == "other name":
        np.savez(answer_path, something_else=good)
    elif fault == "truncated":
        np.savez(answer_path, part_of=good)
        os.truncate(answer_path, os.path.getsize(answer_path) - 40)
    elif fault == "empty file":
        open(answer_path, "wb").close()
    elif fault == "only temporary":
        np.savez(answer_path + ".tmp", part_of=good)
    else:
        misbehave(fault)


def misbehave(fault: str) -> None:
    if fault.startswith("exit "):
        print("[ERROR] I do not like this hypergraph", flush=True)
        os._exit(int(fault.split()[1]))
    elif fault == "segfault":
        ctypes.string_at(0)
    elif fault == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    elif fault == "memory":
        hoard = bytearray(2**40)
        print(len(hoard))
    elif fault == "question":
        print("press Y or N", input(), flush=True)
    elif fault.startswith("sleep "):
        # Its own number, and that of a process it started, for the test to look for afterwards.
        grandchild = os.fork()
        if grandchild:
            with open(fault.split(maxsplit=1)[1], "w") as file:
                file.write(f"{os.getpid()} {grandchild}\n")
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
