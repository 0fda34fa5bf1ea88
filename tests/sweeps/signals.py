"""Send signals to `hyperplace train` and `hyperplace partition` at random moments: 300 take over an hour.

A run of train ends within five seconds of its signal, and the same command with --resume goes on from the checkpoint:
again and again, until the run is done, with the losses of a run that nobody disturbed. A partition ends within five
seconds too, says so, and no process of it is left. Moments are drawn from as long as a command takes that nobody
disturbs, on this machine as busy as it is. The tests send a few.

    python tests/sweeps/signals.py [--out results/faults/signals.csv] [SIGINT 200] [SIGTERM 50] [SIGKILL 50]

With a file, a row is added after every ten signals, and what is there already is not done again: `make signals`.
"""

import csv
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import hyperplace.steps.capture
import hyperplace.training  # noqa: F401  with what loads slowest
from hyperplace.cli import main as main_of_cli

LIMIT_S = 5.0
CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")
# With the usual learning rate seed 0 is at the edge: some plans, and the plain loop, end in losses of 10 or NaN.
TRAIN = (
    *("--data", "synthetic", "--images", "1600", "--epochs", "3", "--schedule", "sync", "--batch", "16"),
    *("--lr", "0.01"),
)
SMALL = ("--batch", "16", "--time-limit", "1")
PARTITION = ("partition", "smallcnn", "--k", "4", "--time-limit", "4")
MARK = "HYPERPLACE_SIGNAL_SWEEP"
CODES = {signal.SIGINT: (130, -2), signal.SIGTERM: (143, -15), signal.SIGKILL: (-9,)}


@dataclass
class Tally:
    """What became of one kind of signal."""

    sent: int = 0
    late: int = 0  # the command had ended already
    saved: int = 0  # train said that it had saved
    runs: int = 0  # finished, with the losses compared
    slowest_s: float = 0.0
    faults: list[str] = field(default_factory=list)


class Command:
    """A command in a process that was forked: it has torch already, so that moments are not drawn from its loading.

    Every fifth is begun as from a shell.
    """

    num_begun = 0

    def __init__(self, words, folder):
        self._words, self._said, self.mark = words, folder / "said", secrets.token_hex(8)
        self.returncode = self._process = None
        Command.num_begun += 1
        self._said.write_text("")
        if Command.num_begun % 5 == 0:
            with self._said.open("w") as said:
                self._process = subprocess.Popen(
                    [*CLI, *words],
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    env=self._env(),
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                )
            self.number = self._process.pid
        else:
            # A signal before the child is ready for it would go through what it has of the sweep itself.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            self.number = os.fork()
            if self.number == 0:
                self._run()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _env(self):
        return os.environ | {MARK: self.mark}

    def _run(self):
        code = 3
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.setsid()  # by which all that it starts can be told
            os.environ |= self._env()
            for path, number in ((os.devnull, 1), (self._said, 2)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.argv = ["hyperplace", *self._words]
            main_of_cli()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except KeyboardInterrupt:
            code = -signal.SIGINT
        except BaseException:
            traceback.print_exc()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with suppress(Exception):
                sys.stderr.flush()
            if code < 0:
                signal.signal(-code, signal.SIG_DFL)
                os.kill(os.getpid(), -code)
            os._exit(code)

    def wait(self, limit_s):
        """Say whether it has ended in time."""
        deadline = time.monotonic() + limit_s
        while self.returncode is None:
            number, status = os.waitpid(self.number, os.WNOHANG)
            if number:
                self.returncode = os.waitstatus_to_exitcode(status)
                if self._process:
                    self._process.returncode = self.returncode
            elif time.monotonic() > deadline:
                return False
            else:
                time.sleep(0.005)
        return True

    def said(self):
        return self._said.read_text()


def disturbed(words, number, delay_s, folder):
    """Run a command, send it a signal after a while; return it, and how long it took to end."""
    command = Command(words, folder)
    if command.wait(delay_s):
        return command, None  # it had ended already
    begin = time.monotonic()
    os.kill(command.number, number)
    if not command.wait(4 * LIMIT_S):
        os.kill(command.number, signal.SIGKILL)
        command.wait(LIMIT_S)
    return command, time.monotonic() - begin


def left_over(command, limit_s=LIMIT_S):
    """Return the processes that still have the mark or the session of a command, some time after it."""
    deadline = time.monotonic() + limit_s
    while (found := _marked(command)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _marked(command):
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, session, *_ = (path / "stat").read_text().rpartition(")")[2].split()
            if state == "Z":  # it has ended, and nobody has asked for it
                continue
            if int(session) == command.number or f"{MARK}={command.mark}".encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
        except OSError:  # it has ended, or is another user's
            continue
    return found


def check(tally, name, number, command, seconds):
    """Note what holds of any command that got a signal."""
    code, said = command.returncode, command.said()
    if seconds is None:
        tally.late += 1
        if code:
            tally.faults.append(f"{name}: exit code {code} by itself: {said[-300:]}")
        return
    tally.slowest_s = max(tally.slowest_s, seconds)
    if seconds > LIMIT_S:
        tally.faults.append(f"{name}: {number.name}: it took {seconds:.1f} s to end")
    if code not in (*CODES[number], 0):
        tally.faults.append(f"{name}: {number.name}: exit code {code}: {said[-300:]}")


def losses(folder):
    with (folder / "history.csv").open() as file:
        return [{key: row[key] for key in row if "second" not in key} for row in csv.DictReader(file)]


def train_signals(number, count, folder, plan, calm, chance):
    """Send signals to runs, each of which goes on until it is done, and compare its losses."""
    tally, out, wanted = Tally(), folder / f"run-{number.name}", losses(calm.folder)
    while tally.sent < count or out.exists():
        resume = ["--resume"] if (out / "checkpoint.pt").exists() else []
        delay_s = chance.uniform(0, calm.seconds) if tally.sent < count else 300
        words = ("train", str(plan), *TRAIN, "--out", str(out), *resume)
        command, seconds = disturbed(words, number, delay_s, folder)
        tally.sent += seconds is not None
        tally.saved += "saved in" in command.said()
        check(tally, "train", number, command, seconds)
        if (out / "history.csv").exists() and seconds is None:
            if losses(out) != wanted:
                tally.faults.append(f"train: {number.name}: other losses: {losses(out)}")
            tally.runs += 1
            out.rename(folder / f"done-{secrets.token_hex(4)}")
        elif tally.faults:
            break
    return tally


def partition_signals(number, count, folder, calm, chance):
    """Send signals to searches; nothing of them may be left, neither processes nor half a result."""
    tally, out = Tally(), folder / f"plan-{number.name}"
    for _ in range(count):
        words = (*PARTITION, "--out", str(out))
        command, seconds = disturbed(words, number, chance.uniform(0, calm.seconds), folder)
        tally.sent += seconds is not None
        check(tally, "partition", number, command, seconds)
        if left := left_over(command):
            tally.faults.append(f"partition: {number.name}: left {left}")
    return tally


@dataclass(frozen=True)
class Calm:
    """A command that nobody disturbed: where it wrote, and how long it took."""

    folder: Path
    seconds: float


def calm(words, folder):
    begin = time.monotonic()
    command = Command((*words, "--out", str(folder)), folder.parent)
    assert command.wait(600)
    assert command.returncode == 0, command.said()
    return Calm(folder, time.monotonic() - begin)


def sweep(counts, seed=0):
    """Return what became of so many signals of each kind, by command."""
    chance, found = random.Random(seed), {}
    with tempfile.TemporaryDirectory(prefix="hyperplace-signals-") as name:
        folder = Path(name)
        plan = calm(("partition", "smallcnn", "--k", "2", *SMALL), folder / "plan").folder / "plan.json"
        trained, searched = calm(("train", str(plan), *TRAIN), folder / "run"), calm(PARTITION, folder / "search")
        for number, count in counts.items():
            found["train", number] = train_signals(number, count, folder, plan, trained, chance)
            found["partition", number] = partition_signals(number, count, folder, searched, chance)
    return found


HEADER = "command,signal,sent,ended before it,saved,runs with the same losses,slowest end s,faults"
PIECE = 10  # signals of a kind between two rows of the file


def main(words):
    path = None
    if words[:1] == ["--out"]:
        path, words = Path(words[1]), words[2:]
    given = {signal.Signals[name]: int(count) for name, count in zip(words[::2], words[1::2], strict=True)}
    left = given or {signal.SIGINT: 200, signal.SIGTERM: 50, signal.SIGKILL: 50}
    print(HEADER)
    if path is None:
        return _ran(left, 0, None)
    for number, count in left.items():
        while (done := _num_sent(path, number)) < count:
            if _ran({number: min(PIECE, count - done)}, 1000 * number + done, path):
                return 1
    return 0


def _num_sent(path, number):
    """Return how many signals of a kind rows of the file tell of, by the command that has got fewer."""
    if not path.exists():
        return 0
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["signal"] == number.name]
    sent = [int(row["sent"]) + int(row["ended before it"]) * (row["command"] == "partition") for row in rows]
    return min(sum(n for n, row in zip(sent, rows, strict=True) if row["command"] == c) for c in ("train", "partition"))


def _ran(given, seed, path):
    found = sweep(given, seed)
    for (command, number), one in found.items():
        figures = (one.sent, one.late, one.saved, one.runs, f"{one.slowest_s:.2f}", len(one.faults))
        row = f"{command},{number.name},{','.join(map(str, figures))}"
        print(row, flush=True)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            with path.open("a") as file:
                file.write(f"{HEADER}\n" * is_new + f"{row}\n")
    for one in found.values():
        print(*one.faults, sep="\n", end="\n" if one.faults else "", file=sys.stderr)
    return int(any(one.faults for one in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
