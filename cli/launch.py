"""`hyperplace launch`: torchrun on several hosts, over ssh."""

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperplace.errors import TrainingError, UsageError

from .terminal import say

POLL_S = 0.1
GRACE_S = 10.0  # for the other hosts to say why they end, once one has


def launch(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(help="The plan.json, at the same path on every host.", show_default=False)],
    hosts: Annotated[str, typer.Option(help="Hosts in the order of the parts, such as a,b.")],
    port: Annotated[int, typer.Option(help="A free port of the first host.")] = 29500,
    address: Annotated[
        str | None, typer.Option(help="The first host's address for the others.", show_default="its name")
    ] = None,
    interface: Annotated[
        str | None, typer.Option(help="The network card to use, such as eth0.", show_default="what gloo finds")
    ] = None,
    python: Annotated[str, typer.Option(help="Python on every host.")] = "python3",
    ssh: Annotated[
        str, typer.Option(help="How to reach a host; its name and a command follow.")
    ] = "ssh -o BatchMode=yes",
) -> None:
    """Train a plan on several hosts: `hyperplace train` under torchrun on each of them, started over ssh.

    Options after the plan go to train: hyperplace launch --hosts a,b plan.json --epochs 3. Every host needs hyperplace,
    the plan and the data; the network between them must be trusted, for its messages are not authenticated.
    """
    names = [name.strip() for name in hosts.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(f"--hosts {hosts} does not name two or more different hosts; give them as a,b")
    words = ["train", plan, *context.args]
    commands = [
        _command(number, len(names), f"{address or names[0]}", port, python=python, interface=interface, words=words)
        for number in range(len(names))
    ]
    code = _run([[*shlex.split(ssh), name, text] for name, text in zip(names, commands, strict=True)], names)
    if code:
        raise typer.Exit(code)


def _command(
    number: int, count: int, address: str, port: int, *, python: str, interface: str | None, words: Sequence[str]
) -> str:
    """Return what a host's shell is to run, in the folder that this one is in."""
    torchrun = [python, "-m", "torch.distributed.run", "--nnodes", count, "--node-rank", number]
    torchrun += ["--nproc-per-node", 1, "--master-addr", address, "--master-port", port]
    variables = [f"GLOO_SOCKET_IFNAME={shlex.quote(interface)}"] if interface else []
    line = shlex.join([str(word) for word in (*torchrun, "-m", "hyperplace", *words)])
    return " ".join([f"cd {shlex.quote(str(Path.cwd()))} &&", *variables, "exec", line])


def _run(commands: Sequence[Sequence[str]], names: Sequence[str]) -> int:
    """Run one command per host; their errors are shown with their names. Return 0 once all have ended well."""
    try:
        runs = [
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=None if number == 0 else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number, command in enumerate(commands)
        ]
    except OSError as fault:
        raise TrainingError(f"cannot run {commands[0][0]}: {(fault.strerror or str(fault)).lower()}") from None
    readers = [
        threading.Thread(target=_show, args=(run, name), daemon=True) for run, name in zip(runs, names, strict=True)
    ]
    try:
        for reader in readers:
            reader.start()
        deadline = None
        while any(run.poll() is None for run in runs) and (deadline is None or time.monotonic() < deadline):
            if deadline is None and any(run.poll() for run in runs):
                deadline = time.monotonic() + GRACE_S
            time.sleep(POLL_S)
    finally:
        for run in runs:
            run.terminate()
    for reader in readers:
        reader.join(1.0)
    failed = [name for run, name in zip(runs, names, strict=True) if run.wait() != 0]
    if failed:
        say(f"{', '.join(failed)} ended with an error")
    return int(bool(failed))


def _show(run: "subprocess.Popen[str]", name: str) -> None:
    assert run.stderr is not None
    for line in run.stderr:
        print(f"[{name}] {line}", end="", file=sys.stderr, flush=True)
