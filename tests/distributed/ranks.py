"""Start a script in several processes on this machine, as torchrun would, and take what they print."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIMIT_S = 120


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def started(number, arguments, port, **variables):
    """Return the process of a rank."""
    size = variables.pop("size")
    env = os.environ | {"RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_each(arguments_of, limit_s=LIMIT_S, **variables):
    """Run a command of its own for every rank; return exit codes and what they wrote."""
    port = free_port()
    ranks = [started(n, a, port, size=len(arguments_of), **variables) for n, a in enumerate(arguments_of)]
    try:
        outputs = [rank.communicate(timeout=limit_s) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, *output) for rank, output in zip(ranks, outputs, strict=True)]


def run(size, script, *arguments, **variables):
    """Run a script of this folder in every rank."""
    return run_each([(HERE / script, *arguments)] * size, **variables)


def lines(results):
    """Return the lines of JSON that all have printed; whoever failed shows its traceback."""
    assert all(code == 0 for code, *_ in results), "\n".join(err[-2000:] for _, _, err in results)
    return [json.loads(line) for _, out, _ in results for line in out.splitlines() if line.startswith("{")]


def words(results):
    """Return the same, also of ranks that have ended otherwise."""
    return [json.loads(line) for _, out, _ in results for line in out.splitlines() if line.startswith("{")]
