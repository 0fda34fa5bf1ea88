"""Lose a host again and again, at random places, and see what the others do: nobody hangs, all name the right one.

    python tests/sweeps/faults.py 1000 [--seed 0] [--out results/faults/faults.csv] [--jobs 2] [--loopback]

A case is a fault (SIGKILL, SIGSTOP, an exception, a pause of 2 s, no room on the disk; on emulated hosts also packets
that are dropped for good or for 2 s, and a card that is down), the rank that it befalls, a moment (before the first
mini-batch, or at a random one and some time later, within a checkpoint or a prediction maybe), a schedule, a plan, two
or three ranks, and whether it is to be outlived. Then the weights after a further 50 mini-batches must be, bit for bit,
those of a run that is restarted by hand from the same update on the same plan for those who are left: that one runs on
threads, from a checkpoint of a run without faults. Rows are added to the file, one per case, and a later call goes on
where this one was stopped, with what was wrong again. Several jobs run cases side by side, each on hosts of its own:
most of a case is waiting, for silence to be long enough.
"""

import argparse
import csv
import ctypes
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

import fault_rank
import torch

from hyperplace import planning
from hyperplace.bench.netns import Card, NoHosts, hosts, on_loopback
from hyperplace.errors import FileError
from hyperplace.runtime.checkpoints.checkpoint import read_checkpoint

PLANS = ("coarse:horizontal", "fine:random", "hybrid:horizontal", "hybrid:dataparallel", "hybrid:random")
KINDS = ("kill", "stop", "exception", "pause", "disk")
NETWORK_KINDS = ("drop", "unplug", "outage")
SLOW = ("pause", "outage")  # for 2 s: nobody is dead
NAMED_S, CRASH_S, GO_ON_S = 5.0, 1.0, 30.0
START = -1  # instead of a mini-batch
LIMIT_S = 90.0
FURTHER = 50
CLONE_NEWNET = 0x40000000


def drawn(seed, kinds):
    """Return a case."""
    draw = random.Random(seed)
    k, kind = draw.choice((2, 3)), draw.choice(kinds)
    every, batch = draw.choice((1, 4, 10)), draw.randrange(3, 40)
    if kind in ("kill", "stop", "drop") and draw.random() < 0.1:
        batch = START
    survives = kind in ("kill", "stop", "drop", "unplug") and batch != START and draw.random() < 0.6
    return {
        "seed": seed,
        "kind": kind,
        "k": k,
        "rank": 0 if kind == "disk" else draw.randrange(k),
        "batch": batch,
        "later_s": 0.3 if batch == START else 0.05,  # a start takes half a second
        "plan": draw.choice(PLANS),
        "schedule": draw.choice(("sync", "async")),
        "in_flight": draw.choice((1, 2, 4)),
        "asks": 5 if kind == "disk" else draw.choice((5, 1000)),
        "every": every,
        "survive": int(survives),
        "steps": max(batch, 0) + FURTHER + every,
    }


def capture_once():
    """Let all cases, in whatever process, share what was captured of the net: it is the same in all of them."""
    real, known = planning.capture, {}

    def capture(model, sample, *, tries_uses=False):
        if tries_uses not in known:
            known[tries_uses] = real(model, sample, tries_uses=tries_uses)
        return known[tries_uses]

    planning.capture = capture
    torch.set_num_threads(1)
    for plan in PLANS:
        for k in (1, 2, 3):
            fault_rank.trainer_of({"plan": plan, "k": k, "schedule": "sync", "in_flight": 1}).close()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def begun(case, folder, rank, port, where):
    """Fork a rank: a process that has torch already begins at once."""
    if child := os.fork():
        return child
    code = 1
    try:
        os.setsid()
        sink = os.open(Path(folder) / f"rank-{rank}.err", os.O_WRONLY | os.O_CREAT)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        if where[rank].enter:
            with Path("/var/run/netns", where[rank].enter[-1]).open() as namespace:
                ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET)
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(case["k"]), "LOCAL_WORLD_SIZE": str(case["k"])}
        os.environ |= {"MASTER_ADDR": where[0].address, "MASTER_PORT": str(port)}
        os.environ |= {"GLOO_SOCKET_IFNAME": where[rank].interface}
        code = fault_rank.main(case, folder, rank)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def lines(folder):
    """Return all that ranks have said."""
    found = []
    for path in sorted(Path(folder).glob("rank-*.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


def set_network(case, where, *, is_there):
    """Let the network of a host fail, or be as it was.

    A port that belongs to no bridge lets nothing through, and neither end is told, as where a switch drops packets.
    """
    name = where[case["rank"]].enter[-1]
    switch, port = f"{name.rsplit('-', 1)[0]}-switch", f"port{case['rank']}"
    if case["kind"] == "unplug":
        command = ["ip", "-n", name, "link", "set", "eth0", "up" if is_there else "down"]
    else:
        command = ["ip", "-n", switch, "link", "set", port, *(("master", "bridge") if is_there else ("nomaster",))]
    subprocess.run(command, check=True)


def outcome(case, folder, where):
    """Run a case; return who ended with which code, and what they said. Whoever hangs has no code."""
    port = free_port()
    ranks = {rank: begun(case, folder, rank, port, where) for rank in range(case["k"])}
    codes, begin, cut_at = {}, time.monotonic(), 0.0
    is_expected = set(ranks) - ({case["rank"]} if case["kind"] == "stop" else set())
    while not is_expected <= codes.keys() and time.monotonic() < begin + LIMIT_S:
        time.sleep(0.02)
        now = time.monotonic()
        if case["kind"] in NETWORK_KINDS and not cut_at and any("fault" in line for line in lines(folder)):
            set_network(case, where, is_there=False)
            cut_at = now
        if case["kind"] == "outage" and cut_at and now > cut_at + fault_rank.PAUSE_S:
            set_network(case, where, is_there=True)
        for rank, child in ranks.items():
            if rank not in codes and (ended := os.waitpid(child, os.WNOHANG))[0]:
                codes[rank] = os.waitstatus_to_exitcode(ended[1])
    for rank, child in ranks.items():
        if rank not in codes:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if cut_at:
        set_network(case, where, is_there=True)
    return codes, lines(folder)


def judged(case, codes, said):
    """Return what is wrong with how a case ended, and the seconds until the fault was named and all went on."""
    others = [rank for rank in range(case["k"]) if rank != case["rank"]]
    begin = next((line["at"] for line in said if "fault" in line), None)
    if begin is None:
        return ["the fault never came"], 0.0, 0.0
    of = {rank: [line for line in said if line["rank"] == rank] for rank in range(case["k"])}
    wrong = [f"rank {rank} hangs" for rank in others if rank not in codes]
    named = {"exception": f"part {case['rank']} failed", "disk": "rank 0: cannot write"}
    name = named.get(case["kind"], f"rank {case['rank']} on host")
    if case["kind"] in SLOW:
        for rank in range(case["k"]):
            ends = [line for line in of[rank] if "digest" in line]
            if not ends:
                wrong.append(f"rank {rank} did not come to the end: {of[rank][-1:]}")
            elif rank in others and str(case["rank"]) not in ends[0]["slow"]:
                wrong.append(f"rank {rank} does not say who is slow")
        return wrong, 0.0, 0.0
    key = "change" if case["survive"] else "error"
    named_s = go_on_s = 0.0
    for rank in others:
        told = next((line for line in of[rank] if key in line), None)
        if told is None or name not in told[key]:
            wrong.append(f"rank {rank} does not name it: {of[rank][-1:]}")
            continue
        if case["survive"]:
            go_on_s = max(go_on_s, told["at"] - begin)
        else:
            named_s = max(named_s, told["at"] - begin)
            wrong += [f"rank {rank} exits with {codes.get(rank)}"] * (codes.get(rank) != 1)
    limit_s = CRASH_S if case["kind"] in ("kill", "exception") else NAMED_S
    if named_s > limit_s:
        wrong.append(f"it took {named_s:.1f} s to name it")
    if case["survive"] and not wrong:
        wrong += outlived(case, codes, said, others, go_on_s)
    return wrong, named_s, go_on_s


def torn(path):
    """Return why the last checkpoint, if there is one, cannot be read."""
    try:
        if path.exists():
            read_checkpoint(path)
    except FileError as fault:
        return [str(fault)]
    return []


def outlived(case, codes, said, others, go_on_s):
    """Return what is wrong with the weights of those who went on."""
    wrong = [f"rank {rank} exits with {codes.get(rank)}" for rank in others if codes.get(rank) != 0]
    cuts = {line["cut"] for line in said if "cut" in line and line["rank"] in others}
    again = [line["again"] for line in said if "again" in line and line["rank"] in others]
    digests = {line["digest"] for line in said if line.get("digest") and line["rank"] in others}
    if go_on_s > GO_ON_S:
        wrong.append(f"they went on after {go_on_s:.1f} s")
    if len(cuts) != 1 or len(digests) != 1:
        return [*wrong, f"they went on after {cuts}, to {len(digests)} states"]
    if max(again) > 3 * case["every"] + case["in_flight"]:
        wrong.append(f"{max(again)} mini-batches were computed again")
    if digests != {fault_rank.expected(case, *cuts, len(others))}:
        wrong.append("the weights are not those of a run restarted by hand")
    return wrong


def ran(case, where):
    """Return the row of a case."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        case = {**case, "folder": folder}
        codes, said = outcome(case, folder, where)
        wrong, named_s, go_on_s = judged(case, codes, said)
        wrong += torn(Path(folder) / "now.pt")
        if wrong:
            for path in Path(folder).glob("rank-*.err"):
                print(path.name, path.read_text()[-1500:], file=sys.stderr)
    again = [line["again"] for line in said if "again" in line]
    columns = ("seed", "kind", "k", "rank", "batch", "plan", "schedule", "in_flight", "every", "survive")
    figures = {"named_s": f"{named_s:.2f}", "go_on_s": f"{go_on_s:.2f}", "again": max(again, default="")}
    took = {"seconds": f"{time.monotonic() - begin:.1f}", "wrong": "; ".join(wrong)}
    return {name: case[name] for name in columns} | figures | took


def written(path, row):
    """Add a row to the file, and write the table of all rows beside it; other jobs may do the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, row)
        if not file.tell():
            writer.writeheader()
        writer.writerow(row)
        file.flush()
        file.seek(0)
        path.with_suffix(".md").write_text(table(list(csv.DictReader(file))))


def table(rows):
    """Return a line for every kind of fault: how many, what went wrong, and the seconds at worst."""
    text = f"{len(rows)} faults, {sum(bool(row['wrong']) for row in rows)} wrong: `python tests/sweeps/faults.py`\n\n"
    text += "| fault | ended | named after, s (most) | outlived | went on after, s (most) | again (most) | wrong |\n"
    text += "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of = [row for row in rows if row["kind"] == kind]
        ended, outlived = ([row for row in of if row["survive"] == survive] for survive in "01")
        figures = (
            len(ended),
            max((row["named_s"] for row in ended if kind not in SLOW), default="", key=float),
            len(outlived),
            max((row["go_on_s"] for row in outlived), default="", key=float),
            max((row["again"] for row in outlived if row["again"]), default="", key=int),
            sum(bool(row["wrong"]) for row in of),
        )
        text += f"| {kind} | " + " | ".join(map(str, figures)) + " |\n"
    return text


def left_of(seeds, path):
    """Return the cases that are not in the file yet; those that were wrong leave it, and are run again."""
    if not (path and path.exists()):
        return list(seeds)
    with path.open(newline="") as file:
        right = [row for row in csv.DictReader(file) if not row["wrong"]]
    path.unlink()
    for row in right:
        written(path, row)
    known = {int(row["seed"]) for row in right}
    return [seed for seed in seeds if seed not in known]


def swept(seeds, path, *, is_loopback):
    """Run some cases on hosts of their own; return how many were wrong."""
    num_wrong = 0
    with ExitStack() as stack:
        kinds, where_of = KINDS, {k: on_loopback(k) for k in (2, 3)}
        try:
            if is_loopback:
                raise NoHosts("as told")
            three = stack.enter_context(hosts(3, Card()))
            kinds, where_of = KINDS + NETWORK_KINDS, {k: three[:k] for k in (2, 3)}
        except NoHosts as reason:
            print(f"on loopback: {reason}", file=sys.stderr)
        for seed in seeds:
            case = drawn(seed, kinds)
            row = ran(case, where_of[case["k"]])
            num_wrong += bool(row["wrong"])
            print(json.dumps(row), flush=True)
            if path:
                written(path, row)
    return num_wrong


def forked(work):
    """Start work in a process of its own; its exit code is 1 if anything was wrong."""
    if child := os.fork():
        return child
    code = 1
    try:
        code = min(1, work())
        sys.stdout.flush()
    finally:
        os._exit(code)


def main():
    options = argparse.ArgumentParser(description="Lose hosts at random places.")
    options.add_argument("count", type=int, nargs="?", default=20)
    options.add_argument("--seed", type=int, default=0, help="of the first case")
    options.add_argument("--out", type=Path, help="a CSV file to add rows to")
    options.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    options.add_argument("--loopback", action="store_true", help="no emulated hosts")
    given = options.parse_args()
    capture_once()
    seeds = left_of(range(given.seed, given.seed + given.count), given.out)
    cases = [seeds[job :: given.jobs] for job in range(given.jobs)]
    jobs = [forked(lambda own=own: swept(own, given.out, is_loopback=given.loopback)) for own in cases]
    codes = [os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]) for job in jobs]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
