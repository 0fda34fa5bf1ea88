"""Train a small CNN for long over two ranks, lose one of them again and again, and replace it by a spare: `make soak`.

    python tests/sweeps/soak.py [--steps 20000] [--loss-every 2000] [--out results/faults/soak.csv]

Every so many mini-batches a rank is killed, now the first and now the last; another process has waited at the doors of
the run, and is taken in at the next checkpoint. Memory and descriptors of every process are sampled at checkpoints:
what the last has may not be more than what the first had after its first losses. In the end the accuracy is compared
with a run without losses. On loopback; 600 steps with a loss every 200 take a minute.
"""

import argparse
import csv
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

import soak_rank
from ranks import free_port

LIMIT_S = 120.0  # without a checkpoint
MORE_KIB, MORE_FILES = 20_000, 6  # that a process may have at its end than after it was warm
MOST_LATER_S = 0.3  # after a checkpoint, that a host is lost
COLUMNS = ("name", "at", "size", "kib", "files", "threads")


def case_of(steps, loss_every, folder, **words):
    usual = {
        "k": 2,
        "steps": steps,
        "loss_every": loss_every,
        "save_every": max(1, min(100, loss_every // 4)),
        "survive_every": 10,
        "plan": "hybrid:dataparallel",
        "door": free_port(),
        "folder": str(folder),
    }
    return usual | words


class Rank:
    """A process that was forked: one that has torch already begins at once."""

    def __init__(self, case, name, spare, env):
        self.returncode = None
        self._number = os.fork()
        if self._number == 0:
            code = 3
            try:
                os.setsid()
                os.environ |= env
                sink = os.open(Path(case["folder"]) / f"{name}.err", os.O_WRONLY | os.O_CREAT)
                os.dup2(sink, 1)
                os.dup2(sink, 2)
                code = soak_rank.main(case, name, spare)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def poll(self):
        if self.returncode is None and (ended := os.waitpid(self._number, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def kill(self):
        if self.poll() is None:
            os.kill(self._number, signal.SIGKILL)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self._number, 0)[1])


class Ranks:
    """The processes of a run: those who train, and a spare that waits."""

    def __init__(self, case):
        self.case, self.of, self.num_begun, self.killed = case, {}, 0, []
        self.port = free_port()
        for number in range(case["k"]):
            self.begin({"RANK": str(number), "WORLD_SIZE": str(case["k"])})
        self.begin_spare()

    def begin_spare(self):
        doors = ",".join(f"127.0.0.1:{self.case['door'] + int(other)}" for other in self.of)
        self.begin({}, doors)

    def begin(self, variables, spare=""):
        """Begin a process; its door is at a port of its own."""
        name = f"{self.num_begun:03d}"
        env = {"LOCAL_RANK": str(self.num_begun), **variables}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        self.of[name] = Rank(self.case, name, spare, env)
        self.num_begun += 1

    def replace(self, name):
        """Kill a process, whose place the spare takes, and begin the next spare: maybe the same host, come back."""
        self.of.pop(name).kill()
        self.killed.append(name)
        self.begin_spare()

    def lines(self):
        found = [p.read_text().splitlines() for p in sorted(Path(self.case["folder"]).glob("*.jsonl"))]
        return [json.loads(line) for some in found for line in some]

    def end(self):
        for one in self.of.values():
            one.kill()


def soaked(case):
    """Run a case; return all that was said, who was killed, and the exit codes of the others."""
    ranks, losses = Ranks(case), list(range(case["loss_every"], case["steps"], case["loss_every"]))
    chance, last, moved = random.Random(0), 0, time.monotonic()
    try:
        while True:
            time.sleep(0.05)
            said = ranks.lines()
            came = {line["name"] for line in said if "ready" in line} & ranks.of.keys()
            codes = {name: ranks.of[name].poll() for name in came}
            if came and None not in codes.values():  # a spare may be left over
                return said, ranks.killed, codes
            if (done := max((line.get("at", 0) for line in said), default=0)) > last:
                last, moved = done, time.monotonic()
            if time.monotonic() > moved + LIMIT_S + case["loss_every"] / 10:
                raise AssertionError(f"nothing has moved since mini-batch {last}: {_errors(case)}")
            if losses and _may_lose(case, said, came, losses[0]):
                (Path(case["folder"]) / f"go-{losses.pop(0)}").touch()
                time.sleep(chance.uniform(0, MOST_LATER_S))
                ranks.replace(sorted(came)[len(losses) % case["k"]])
    finally:
        ranks.end()


def _may_lose(case, said, came, number):
    """Say whether all have come to the checkpoint after which a host is to be lost, and a spare waits."""
    here = {line["name"] for line in said if line.get("at") == number and line["size"] == case["k"]}
    ready = {line["name"] for line in said if "ready" in line}
    return here >= came and any("waits" in line and line["name"] not in ready for line in said)


def _errors(case):
    return " ".join(path.read_text()[-600:] for path in sorted(Path(case["folder"]).glob("*.err")))


def judged(case, said, killed, codes):
    """Return what is wrong with a run, and its accuracy."""
    wrong = [f"{name} ended with {code}" for name, code in codes.items() if code]
    wrong += [line["error"] for line in said if "error" in line and line["name"] not in killed]
    wanted = len(range(case["loss_every"], case["steps"], case["loss_every"]))
    if len(killed) != wanted:
        wrong.append(f"{len(killed)} hosts were lost instead of {wanted}")
    for name in {line["name"] for line in said}:
        own = [line for line in said if line["name"] == name]
        changed = next((at for at, line in enumerate(own) if "change" in line), 0)  # with stores of their own from then
        held = [line for line in own[changed:] if "kib" in line]
        # The first has a store more; who was alone since then has fewer connections.
        alike = [line for line in held if (line["first"], line["size"]) == (held[-1]["first"], held[-1]["size"])]
        warm = alike[len(alike) // 4 :]
        for what, most in (("kib", MORE_KIB), ("files", MORE_FILES)):
            if warm and warm[-1][what] > warm[0][what] + most:
                wrong.append(f"{name} has {warm[-1][what]} {what} at its end and had {warm[0][what]}")
    right = {line["accuracy"] for line in said if "accuracy" in line}
    if len(right) != 1:
        wrong.append(f"accuracies are {right}")
    return wrong, max(right, default=0.0)


def main():
    options = argparse.ArgumentParser(description="Train for long, lose hosts and take others in.")
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--loss-every", type=int, default=2_000)
    options.add_argument("--out", type=Path, help="a CSV file of what every process held")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="hyperplace-soak-") as folder:
        case = case_of(given.steps, given.loss_every, folder)
        begin = time.monotonic()
        said, killed, codes = soaked(case)
        wrong, right = judged(case, said, killed, codes)
        seconds = time.monotonic() - begin
        _, plain = soak_rank.expected(case, [])
    if given.out:
        _write(given.out, said)
    if abs(right - plain) > 0.03:
        wrong.append(f"the accuracy is {right:.3f}, and {plain:.3f} without losses")
    for line in said:
        if "change" in line and line["name"] not in killed:
            print(line["name"], line["change"])
    print(
        f"{given.steps} steps, {len(killed)} hosts lost and replaced, {seconds:.0f} s; accuracy {right:.3f}, without "
        f"losses {plain:.3f}; {_summary(said)}"
    )
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return int(bool(wrong))


def _summary(said):
    """Say what processes held of memory and descriptors, first and last."""
    held = [line for line in said if "kib" in line]
    early, late = held[: len(held) // 4] or held, held[-len(held) // 4 :]
    shown = [f"{max(line[what] for line in some)}" for what in ("kib", "files") for some in (early, late)]
    return "most kib {} early, {} late, descriptors {} early, {} late".format(*shown)


def _write(path, said):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(line for line in said if "kib" in line)


if __name__ == "__main__":
    sys.exit(main())
