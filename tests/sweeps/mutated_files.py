"""Read mutated files of every kind: `make fuzz` (FUZZ_COUNT of each kind).

A mutant is refused by a HyperplaceError within 2 s of computing and 500 MiB, or it is right: it reads back as written,
equals an independent reading, and a plan's program equals plain torch and moves the bytes that the plan says. All
else is a finding: WRONG, HANG, DIED, EXECUTED, SLOW, FAT, another exception. Findings are printed with kind, seed and
number, by which one is repeated, and end in exit code 1. Files are read in a process of its own, so that one that dies
or never answers is a finding too. The tests run a share.

    python tests/sweeps/mutated_files.py [--count 2000] [--seed 0] [--kinds plan,idx] [--number 17] [--out table.csv]
"""

import argparse
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

from budget import EXECUTED, HANG_S, judged, watched
from file_mutants import mutant

from hyperplace.errors import HyperplaceError

MOST_ADDRESSES = 6 * 2**30  # a process that asks for more is refused, and says so, instead of taking the machine down
GOOD = ("refused", "right")
COUNTED = (*GOOD, "found")


def main():
    """Print what became of the mutants of every kind, and add it to a table; return 1 if anything was found."""
    from file_kinds import KINDS

    options = argparse.ArgumentParser(description="Read mutated files of every kind.")
    options.add_argument("--count", type=int, default=2000, help="mutants of each kind")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kinds", default=",".join(KINDS))
    options.add_argument("--number", type=int, help="one mutant, to see it again")
    options.add_argument("--out", type=Path, help="a CSV file to add the counts to")
    given = options.parse_args()
    numbers = range(given.count) if given.number is None else [given.number]
    has_found = False
    for kind in given.kinds.split(","):
        counts, findings = sweep(kind, numbers, given.seed)
        has_found |= bool(findings)
        if given.out:
            _add_row(given.out, (kind, given.seed, len(numbers), *(counts[what] for what in COUNTED)))
    return int(has_found)


def _add_row(path, row):
    is_new = not path.exists()
    with path.open("a") as file:
        file.write("kind,seed,files,refused,right,found\n" * is_new + ",".join(map(str, row)) + "\n")


def sweep(kind, numbers, seed, *, say=print):
    """Read the mutants of a kind in a worker, another one after each that dies; return counts and findings."""
    counts, findings, slowest, begin, left = Counter(), [], 0.0, time.monotonic(), list(numbers)
    while left:
        for number, outcome, seconds in _answers(kind, left, seed):
            left = left[left.index(number) + 1 :]
            slowest = max(slowest, seconds)
            counts[outcome if outcome in GOOD else "found"] += 1
            if outcome not in GOOD:
                findings.append((number, outcome))
                say(f"{kind}, seed {seed}, mutant {number}: {outcome}", flush=True)
    taken = time.monotonic() - begin
    shown = ", ".join(f"{what} {counts[what]}" for what in COUNTED)
    say(f"{kind}: {sum(counts.values())} files, {shown}; slowest {slowest:.2f} s, {taken:.0f} s", flush=True)
    return counts, findings


def _answers(kind, numbers, seed):
    """Yield a worker's outcomes; where it dies or does not answer, that of the file it was at, as the last."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="hyperplace-fuzz-") as folder:
        worker = context.Process(target=work, args=(kind, numbers, seed, theirs, folder), daemon=True)
        worker.start()
        theirs.close()
        try:
            assert ours.poll(120), "the worker does not begin"
            ours.recv()
            for number in numbers:
                if not ours.poll(2 * HANG_S):
                    yield number, "HANG in a call that nothing ends", 2 * HANG_S
                    return
                try:
                    yield number, *ours.recv()
                except EOFError:
                    worker.join()
                    yield number, f"DIED with exit code {worker.exitcode}", 0.0
                    return
        finally:
            worker.kill()
            worker.join()


def work(kind, numbers, seed, answers, folder):
    """Read mutants one by one, in a folder of their own, and send what becomes of each."""
    import torch
    from file_kinds import KINDS

    os.chdir(folder)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    examples = KINDS[kind].examples()
    for number, files in enumerate(examples):
        for name, content in files.items():
            _write(Path("right") / str(number) / name, content)
        assert KINDS[kind].check(Path("right") / str(number), number) == "right", f"{kind} {number} is wrong unchanged"
    answers.send("ready")
    with watched():
        for number in numbers:
            answers.send(_outcome(KINDS[kind], examples, random.Random(f"{seed}/{kind}/{number}")))


def _outcome(kind, examples, chance):
    example = chance.randrange(len(examples))
    files = dict(examples[example])
    name = chance.choice(sorted(files))
    if kind.mutant and chance.random() < 0.9:
        files[name] = kind.mutant(files[name].decode(), chance).encode(errors="surrogatepass")
    else:
        files[name] = mutant(name, files[name], chance)
    for one, content in files.items():
        _write(Path("mutant") / one, content)
    shutil.rmtree(EXECUTED, ignore_errors=True)
    return judged(lambda: _checked(kind, example), is_good=GOOD.__contains__)


def _checked(kind, example):
    try:
        found = kind.check(Path("mutant"), example)
    except HyperplaceError as fault:
        text = str(fault)
        return (
            "refused" if "\n" not in text and len(text) < 2000 else f"WRONG: it says {text[:100]!r}, {len(text)} long"
        )
    return "refused" if found.startswith("refused") else found


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
